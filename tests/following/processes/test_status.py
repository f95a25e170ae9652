"""The status of a process manager: its position, its owner, and the event at which it stopped."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cqrs_cli.cli.output import Printer
from cqrs_cli.cli.render.status import status_text
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.status.columns import partition_document
from cqrs_cli.status.rates import StatusSnapshot
from cqrs_cli.telemetry.status_file import read_status
from tests.following.processes.process_harness import (
    ProcessHarness,
    ThreadedRun,
    expected_payments,
    run_in_this_process,
)
from tests.support.checkout import source_statuses
from tests.support.short_timeouts import short_read_timeout
from tests.support.transactional_topic import begin_transaction
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def status_output(harness: ProcessHarness, capsys: pytest.CaptureFixture[str]) -> str:
    Printer().print_result(
        {}, status_text(StatusSnapshot(0, tuple(source_statuses(harness).values())), "lmdb")
    )
    return capsys.readouterr().out


def test_status_follows_the_position(harness: ProcessHarness) -> None:
    harness.place_orders(0, 3)
    status = source_statuses(harness)["order"]
    assert (status.position, status.lag) == (None, 0)
    plan = harness.plan()
    run_in_this_process(plan)
    retire_processes(plan)
    harness.place_orders(3, 2)
    status = source_statuses(harness)["order"]
    assert status.position and status.end and status.lag == status.end - status.position > 0
    row = partition_document(status)
    assert (row["topic"], row["position"], row["lag"]) == (harness.events, status.position, status.lag)
    assert (row["owner"]["run"], row["owner"]["stopped"], row["stopped_at"]) == (plan.run, True, None)


def test_status_names_the_stopping_event(harness: ProcessHarness, capsys: pytest.CaptureFixture[str]) -> None:
    harness.run_once()
    harness.place_orders(0, 1)
    plan = harness.plan()
    plan = replace(plan, outputs={})  # as if the commands topic was created after the plan
    (error,) = [result.error for result in run_in_this_process(plan) if result.error is not None]
    offset = source_statuses(harness)["order"].stopped_at
    assert offset is not None and f"--skip checkout:order:0@{offset}" in error.hint
    text = " ".join(status_output(harness, capsys).split())
    assert f"process checkout was stopped by {harness.events}:0@{offset}" in text
    assert f"cqrs run --process checkout --skip checkout:order:0@{offset}" in text and error.message in text
    stored_error = partition_document(source_statuses(harness)["order"])["last_error"]
    assert (stored_error["type"], stored_error["message"], stored_error["offset"]) == (
        "InvalidReaction",
        error.message,
        offset,
    )
    harness.run_once()
    assert source_statuses(harness)["order"].last_error is None


@pytest.fixture
def short_timeouts() -> Iterator[None]:
    with short_read_timeout():
        yield


def test_status_names_the_awaited_transaction(
    harness: ProcessHarness, short_timeouts: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another program's open transaction hides the positions. The status reports it until it has ended."""
    harness.run_once(from_beginning=True)
    other_producer = begin_transaction(harness.connection, harness.topics.positions_topic, [b"?"])
    harness.place_orders(0, 1)
    running = ThreadedRun(harness.plan(once=False))
    reason = eventually(lambda: source_statuses(harness)["order"].wait_reason)
    assert reason and reason.startswith(
        f"{harness.topics.positions_topic} partition 0: no record is visible at offset"
    )
    assert partition_document(source_statuses(harness)["order"])["waits_for"] == reason
    assert f"checkout < order 0: it waits: {reason}" in " ".join(status_output(harness, capsys).split())
    other_producer.abort_transaction(10)
    eventually(lambda: harness.payment_requests() == expected_payments(0, 1))
    eventually(lambda: not read_status(running.plan.status_folder(running.plan.subscriptions[0])).blocked)
    running.retire()


def test_missing_topic_is_an_error(harness: ProcessHarness) -> None:
    harness.delete_topics(harness.topics.positions_topic)
    with pytest.raises(ConfigurationError, match="does not exist"):
        source_statuses(harness)
