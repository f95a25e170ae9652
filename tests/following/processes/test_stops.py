"""Events that a process manager cannot process: earlier events are committed, and only this event can be skipped."""

import sys
from pathlib import Path

import pytest

from aggregates.order import Shipped
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.kafka.connection.connection import Connection
from tests.following.processes.process_harness import ProcessHarness, expected_payments, order_placed
from tests.support.checkout import PROCESS
from tests.support.user_code import write_process

pytestmark = pytest.mark.kafka


def failing_harness(connection: Connection, prefix: str, folder: Path, code: str) -> ProcessHarness:
    """Return a harness with ten orders, whose process manager runs `code` at the sixth."""
    harness = ProcessHarness(connection, prefix, write_process(folder, PROCESS.format(then=code)), "mine")
    harness.write_events(
        [order_placed(0), order_placed(1), order_placed(2, event=Shipped()), *map(order_placed, range(3, 10))]
    )
    return harness


STOPS = {
    'raise ValueError("\\ud800")': "raised on order.Placed {place} ('o-0-5', version 1): mine.py:9: ValueError: \ud800",
    "raise KeyboardInterrupt": "raised on order.Placed {place} ('o-0-5', version 1): mine.py:9: KeyboardInterrupt",
    "yield 7": "returned invalid commands for order.Placed {place} ('o-0-5', version 1): processes/mine.py:7: react "
    "returned 7",
    'yield cqrs.Send(at.aggregate_id, "p", Request("x"))': "no aggregate 'o-0-5'",
    'yield cqrs.Send("payment", "", Request("x"))': "aggregate_id has 0 bytes",
    'yield cqrs.Send("payment", "p", AddLine("tea"))': "AddLine is not a command of 'payment'",
    'yield cqrs.Send("payment", "p", Request(7))': "payment.Request: Expected `str`, got `int`",
    'yield from [cqrs.Send("payment", "p", Request("x"))] * 10_001': "more than 10,000 commands for one event",
    'yield from [cqrs.Send("payment", "p", Request("x" * 900_000))] * 10': "more than 8 MiB of commands",
}


@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize("code", STOPS)
def test_process_stops_at_the_event(connection: Connection, prefix: str, tmp_path: Path, code: str) -> None:
    check_stop(connection, prefix, tmp_path, code, STOPS[code])


@pytest.mark.covers("reacted-once")
def test_rejected_records_stop_the_process(connection: Connection, prefix: str, tmp_path: Path) -> None:
    large = "Request(random.Random(1).randbytes(900_000).hex())"
    expected_message = (
        "cannot send the commands for order.Placed {place} ('o-0-5', version 1): a topic rejects them: "
    )
    check_stop(
        connection,
        prefix,
        tmp_path,
        f'import random; yield cqrs.Send("payment", "p", {large})',
        expected_message,
    )


def check_stop(connection: Connection, prefix: str, tmp_path: Path, code: str, expected_message: str) -> None:
    """Check that earlier events are committed, and that no run sends a command for the event, until it is skipped."""
    harness = failing_harness(connection, prefix, tmp_path, code)
    error = harness.run_once_error(from_beginning=True)
    position = harness.position()
    assert position is not None
    assert position.stopped == position.offset
    event_address = f"{harness.events}:0@{position.offset}"
    assert type(error) is CqrsError
    assert error.message.startswith("process mine ")
    assert expected_message.format(place=event_address) in error.message
    earlier_payments = expected_payments(0, 5)
    del earlier_payments["o-0-2"]
    assert harness.payment_requests() == earlier_payments
    assert harness.run_once_error().message == error.message
    assert harness.payment_requests() == earlier_payments
    skip = f"mine:order:0@{position.offset}"
    assert error.hint.endswith(f"cqrs run --process mine --skip {skip}")
    harness.run_once(skip=[skip])
    harness.run_once(skip=[skip])  # the option was left in a script
    assert harness.payment_requests() == earlier_payments + expected_payments(6, 4)
    skipped = harness.position()
    assert skipped is not None
    assert (skipped.skipped, skipped.stopped) == (position.offset, None)


def test_corrected_process_continues(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = failing_harness(connection, prefix, tmp_path, "1 / 0")
    harness.run_once_error(from_beginning=True)
    write_process(tmp_path, PROCESS.format(then="pass"), "mine")
    harness.name = "mine"
    del sys.modules["processes.mine"]
    harness.run_once()
    expected = expected_payments(0, 10)
    del expected["o-0-2"]
    assert harness.payment_requests() == expected


@pytest.mark.covers("reacted-once")
def test_only_a_stopped_event_is_skipped(harness: ProcessHarness) -> None:
    harness.place_orders(0, 3)
    with pytest.raises(UsageError, match="it has not started"):
        harness.plan(skip=["checkout:order:0@1"])
    harness.run_once()
    position = harness.position()
    assert position is not None
    next_offset = position.offset
    with pytest.raises(UsageError, match=f"its position is {next_offset}"):
        harness.plan(skip=[f"checkout:order:0@{next_offset}"])
    assert harness.plan(skip=["checkout:order:0@0"])  # before the position: already used


@pytest.mark.parametrize("skip", ["checkout:order:0", "order:0@3", "checkout:order:7@3", "checkout:x:0@3"])
def test_invalid_skips_raise(harness: ProcessHarness, skip: str) -> None:
    with pytest.raises(UsageError, match=r"is not a position in a topic|is not a subscription of this run"):
        harness.plan(skip=[skip])


def test_missing_topics_are_named(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """The error names the topics of an aggregate in the code, before any claim."""
    harness = failing_harness(connection, prefix, tmp_path, 'yield cqrs.Send("sensor", "s", Request("x"))')
    with pytest.raises(ConfigurationError, match=r"sensor\.commands does not exist"):
        harness.plan()
