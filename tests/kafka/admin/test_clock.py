"""The broker's clock, read from the quorum of a real broker."""

from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from cqrs_cli.cli.clocks import warn_of_clock_difference
from cqrs_cli.cli.context import Cli
from cqrs_cli.doctor.cluster import compare_clocks
from cqrs_cli.kafka.admin.clock import OwnClock, clock_difference, clock_message, local_clock
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import load_settings

DAY = 86_400_000


def shifted_clock(shift: int) -> OwnClock:
    return lambda: local_clock() + shift


@pytest.mark.kafka
@pytest.mark.parametrize(("shift", "status"), [(0, "ok"), (2 * DAY, "warn"), (-2 * DAY, "warn")])
def test_doctor_compares_clocks(connection: Connection, shift: int, status: str) -> None:
    with Admin(connection) as admin:
        difference = admin.clock_difference(shifted_clock(shift))
        (check,) = compare_clocks(admin, timedelta(minutes=1), shifted_clock(shift))
    assert difference is not None and abs(difference - shift) < 30_000
    assert check.status == status


class Quorum:
    """A quorum whose leader reports this time."""

    def __init__(self, leader_time: int) -> None:
        self.leader_time = leader_time

    def describe_metadata_quorum(self) -> dict[str, object]:
        voters = [
            {"replica_id": 1, "last_caught_up_timestamp": 5},
            {"replica_id": 2, "last_caught_up_timestamp": self.leader_time},
        ]
        return {"topics": [{"partitions": [{"leader_id": 2, "current_voters": voters}]}]}


@pytest.mark.parametrize(("leader_time", "difference"), [(1000, 0), (999, 1), (1002, -1), (-1, None)])
def test_difference_is_a_lower_bound(leader_time: int, difference: int | None) -> None:
    """The broker's time is between the request and the response, unless the clocks differ."""
    times = iter([1000, 1001])
    assert clock_difference(Quorum(leader_time), lambda: next(times)) == difference


def test_difference_is_described() -> None:
    assert "is 172,800 s ahead of the broker's" in clock_message(2 * DAY)
    assert "is 60 s behind the broker's" in clock_message(-60_000)


class FakeCli:
    """The settings and notes of a command."""

    def __init__(self, folder: Path) -> None:
        self.settings, self.notes = load_settings({}, folder), list[str]()

    def print_note(self, text: str, level: str = "info") -> None:
        self.notes.append(text)


@pytest.mark.kafka
@pytest.mark.parametrize(("shift", "count"), [(0, 0), (2 * DAY, 1)])
def test_run_and_status_note_a_difference(
    connection: Connection, tmp_path: Path, shift: int, count: int
) -> None:
    cli = FakeCli(tmp_path)
    warn_of_clock_difference(cast(Cli, cli), connection, shifted_clock(shift))
    assert len(cli.notes) == count
