"""The findings of `cqrs doctor` about partitions."""

import pytest

from cqrs_cli.cli.checks.partitions import partition_checks
from cqrs_cli.doctor.check import ok, warn
from cqrs_cli.status.partition import PartitionOwner, Rates
from tests.cli.conftest import Cqrs
from tests.support import statuses


def test_partitions_without_owner_are_counted() -> None:
    checks = partition_checks(
        statuses.status_snapshot(
            statuses.decided_partition(lag=2, rates=Rates(1, 1, 0)),
            statuses.subscribed_partition(is_owned=False),
        )
    )
    assert list(checks) == [ok("partitions", "2 partitions, 1 without an owner; lag 2")]


def test_suspects_and_stops_are_warnings() -> None:
    checks = partition_checks(
        statuses.status_snapshot(
            statuses.decided_partition(suspect_text="on trial", lag=1),
            statuses.subscribed_partition(stopped_at=7, remedy_command="--skip"),
        )
    )
    first, second = checks
    assert first == warn("partitions", "bank 0: on trial", "")
    assert second.detail == "checkout < order 0: process checkout was stopped by order.events:0@7"
    assert second.hint == "correct it, or leave the event out: --skip"


def test_silent_runs_are_warnings() -> None:
    owner = PartitionOwner("a", since=1_000, silent_seconds=56)
    checks = list(
        partition_checks(
            statuses.status_snapshot(*(statuses.decided_partition(number, owner=owner) for number in (0, 1)))
        )
    )
    assert checks == [
        warn("partitions", "bank: its run a (silent for 56 s)", "if it was killed, start a run: cqrs run")
    ]


@pytest.mark.kafka
def test_doctor_checks_the_partitions(cqrs_on_decisions: Cqrs) -> None:
    checks = cqrs_on_decisions("doctor", "-o", "json").document["checks"]
    (partition_check,) = [check for check in checks if check["name"] == "partitions"]
    assert (partition_check["status"], partition_check["detail"]) == (
        "ok",
        "2 partitions, 2 without an owner; lag 7",
    )
