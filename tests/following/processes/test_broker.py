"""Process managers on a real broker: their commands, their start positions, and takeovers."""

import pytest

from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import producer_partition
from tests.following.processes.process_harness import ProcessHarness, ThreadedRun, expected_payments
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("reacted-once")
def test_new_process_starts_at_the_end(harness: ProcessHarness) -> None:
    harness.place_orders(0, 5)
    harness.run_once()
    assert harness.sent_commands() == []
    harness.place_orders(5, 20)
    harness.run_once()
    assert harness.payment_requests() == expected_payments(5, 20)
    harness.run_once(from_beginning=True)  # the option counts only for a new process manager
    assert harness.payment_requests() == expected_payments(5, 20)


def test_option_starts_at_the_beginning(harness: ProcessHarness) -> None:
    harness.place_orders(0, 5)
    harness.run_once(from_beginning=True)
    assert harness.payment_requests() == expected_payments(0, 5)


@pytest.mark.covers("reacted-once")
def test_start_is_committed_before_polling(harness: ProcessHarness) -> None:
    """A new process manager commits its start position before it polls, so no later event is missed if it dies."""
    harness.place_orders(0, 3)
    first = harness.plan(once=False)
    running = ThreadedRun(first)
    eventually(lambda: harness.position() is not None)
    position = harness.position()
    running.retire()
    harness.place_orders(3, 4)
    harness.run_once()
    assert position is not None
    assert position.claim.run == first.run
    assert harness.payment_requests() == expected_payments(3, 4)


def test_commands_have_ids_of_their_events(connection: Connection, prefix: str) -> None:
    harness = ProcessHarness(connection, prefix, partitions=3)
    for partition in range(3):
        harness.place_orders(0, 8, partition)
    harness.run_once(from_beginning=True)
    commands = harness.sent_commands()
    assert len(commands) == 24
    for command in commands:
        _, partition, number = command["subject"].split("-")
        time = 1_800_000_000_000 + int(number)
        assert command["id"] == f"checkout/{harness.events}/{partition}/{number}/0@{time}/0"
        assert command["causationid"] == f"{partition}/{number}/0"
        assert command["correlationid"] == f"c-{number}"
        assert command["source"] == "/cqrs/process/checkout"
        assert command["data"] == {"customer": "ann"}
        assert command["key"] == command["subject"].encode()
        assert command["partition"] == producer_partition("murmur2", command["key"], 3)


@pytest.mark.covers("reacted-once")
def test_later_runs_take_over(harness: ProcessHarness) -> None:
    first = ThreadedRun(harness.plan(once=False, from_beginning=True))
    harness.place_orders(0, 5)
    eventually(lambda: harness.payment_requests() == expected_payments(0, 5))
    second = ThreadedRun(harness.plan(once=False))
    error = first.wait_for_error()
    harness.place_orders(5, 5)
    eventually(lambda: harness.payment_requests() == expected_payments(0, 10))
    second.retire()
    assert isinstance(error, TakenOverError)
    assert "took over process checkout" in error.message
