"""Events that a process manager cannot process: earlier events are committed, and only this event can be skipped."""

import sys
from pathlib import Path

import pytest

from aggregates.order import Shipped
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.kafka.connection.connection import Connection
from tests.following.processes.process_harness import Stage, orders, placed
from tests.support.checkout import PROCESS
from tests.support.user_code import write_process

pytestmark = pytest.mark.kafka


def failing_stage(connection: Connection, prefix: str, folder: Path, code: str) -> Stage:
    """Return a stage with ten orders, whose process manager runs `code` at the sixth."""
    stage = Stage(connection, prefix, write_process(folder, PROCESS.format(then=code)), "mine")
    stage.write([placed(0), placed(1), placed(2, event=Shipped()), *map(placed, range(3, 10))])
    return stage


STOPS = {
    "1 / 0": "raised on order.Placed {place} ('o-0-5', version 1): mine.py:9: ZeroDivisionError",
    "raise KeyboardInterrupt": "raised on order.Placed {place} ('o-0-5', version 1): mine.py:9: KeyboardInterrupt",
    "yield 7": "returned invalid commands for order.Placed {place} ('o-0-5', version 1): processes/mine.py:7: react "
    "gave 7",
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
def test_refused_commands_stop(connection: Connection, prefix: str, tmp_path: Path) -> None:
    large = "Request(random.Random(1).randbytes(900_000).hex())"
    expected_message = (
        "cannot send the commands for order.Placed {place} ('o-0-5', version 1): "
        "a commands topic rejects its commands: "
    )
    check_stop(
        connection,
        prefix,
        tmp_path,
        f'import random; yield cqrs.Send("payment", "p", {large})',
        expected_message,
    )


def check_stop(connection: Connection, prefix: str, tmp_path: Path, code: str, expected_message: str) -> None:
    """Check that earlier events are committed, and that the event sends no command on any try, until it is skipped."""
    stage = failing_stage(connection, prefix, tmp_path, code)
    error = stage.error(beginning=True)
    position = stage.position()
    assert position is not None
    assert position.stopped == position.offset
    place = f"{stage.events}:0@{position.offset}"
    assert type(error) is CqrsError
    assert error.message.startswith("process mine ")
    assert expected_message.format(place=place) in error.message
    before = orders(0, 5)
    del before["o-0-2"]
    assert stage.asked() == before
    assert stage.error().message == error.message
    assert stage.asked() == before
    skip = f"mine:order:0@{position.offset}"
    assert error.hint.endswith(f"cqrs run --process mine --skip {skip}")
    stage.react(skip=[skip])
    stage.react(skip=[skip])  # the option was left in a script
    assert stage.asked() == before + orders(6, 4)
    skipped = stage.position()
    assert skipped is not None
    assert (skipped.skipped, skipped.stopped) == (position.offset, None)


def test_corrected_processes_go_on(connection: Connection, prefix: str, tmp_path: Path) -> None:
    stage = failing_stage(connection, prefix, tmp_path, "1 / 0")
    stage.error(beginning=True)
    write_process(tmp_path, PROCESS.format(then="pass"), "mine")
    stage.name = "mine"
    del sys.modules["processes.mine"]
    stage.react()
    expected = orders(0, 10)
    del expected["o-0-2"]
    assert stage.asked() == expected


@pytest.mark.covers("reacted-once")
def test_only_what_stopped_is_skipped(stage: Stage) -> None:
    stage.place(0, 3)
    with pytest.raises(UsageError, match="it has not started"):
        stage.plan(skip=["checkout:order:0@1"])
    stage.react()
    position = stage.position()
    assert position is not None
    ahead = position.offset
    with pytest.raises(UsageError, match=f"its position is {ahead}"):
        stage.plan(skip=[f"checkout:order:0@{ahead}"])
    assert stage.plan(skip=["checkout:order:0@0"])  # before the position: already used


@pytest.mark.parametrize("place", ["checkout:order:0", "order:0@3", "checkout:order:7@3", "checkout:x:0@3"])
def test_other_places_are_refused(stage: Stage, place: str) -> None:
    with pytest.raises(UsageError, match=r"is not a position in a topic|is not a subscription of this run"):
        stage.plan(skip=[place])


def test_missing_topics_are_named(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """The error names the topics of an aggregate in the code, before any claim."""
    stage = failing_stage(connection, prefix, tmp_path, 'yield cqrs.Send("sensor", "s", Request("x"))')
    with pytest.raises(ConfigurationError, match=r"sensor\.commands does not exist"):
        stage.plan()
