"""Process managers on a real broker: their commands, their start positions, and takeovers."""

import pytest

from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import target_partition
from tests.following.processes.process_harness import RunningProcess, Stage, orders
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("reacted-once")
def test_new_processes_begin_at_the_end(stage: Stage) -> None:
    stage.place(0, 5)
    stage.react()
    assert stage.commands() == []
    stage.place(5, 20)
    stage.react()
    assert stage.asked() == orders(5, 20)
    stage.react(beginning=True)  # the option counts only for a new process manager
    assert stage.asked() == orders(5, 20)


def test_beginning_must_be_asked_for(stage: Stage) -> None:
    stage.place(0, 5)
    stage.react(beginning=True)
    assert stage.asked() == orders(0, 5)


@pytest.mark.covers("reacted-once")
def test_start_is_kept_before_polling(stage: Stage) -> None:
    """A new process manager commits its start before it listens, so no later event is missed if it dies."""
    stage.place(0, 3)
    first = stage.plan(once=False)
    running = RunningProcess(first)
    eventually(lambda: stage.position() is not None)
    position = stage.position()
    running.end()
    stage.place(3, 4)
    stage.react()
    assert position is not None
    assert position.claim.run == first.run
    assert stage.asked() == orders(3, 4)


def test_commands_say_where_they_come_from(connection: Connection, prefix: str) -> None:
    stage = Stage(connection, prefix, partitions=3)
    for partition in range(3):
        stage.place(0, 8, partition)
    stage.react(beginning=True)
    commands = stage.commands()
    assert len(commands) == 24
    for command in commands:
        _, partition, number = command["subject"].split("-")
        time = 1_800_000_000_000 + int(number)
        assert command["id"] == f"checkout/{stage.events}/{partition}/{number}/0@{time}/0"
        assert command["causationid"] == f"{partition}/{number}/0"
        assert command["correlationid"] == f"c-{number}"
        assert command["source"] == "/cqrs/process/checkout"
        assert command["data"] == {"customer": "ann"}
        assert command["key"] == command["subject"].encode()
        assert command["partition"] == target_partition("murmur2", command["key"], 3)


@pytest.mark.covers("reacted-once")
def test_later_runs_take_over(stage: Stage) -> None:
    first = RunningProcess(stage.plan(once=False, beginning=True))
    stage.place(0, 5)
    eventually(lambda: stage.asked() == orders(0, 5))
    second = RunningProcess(stage.plan(once=False))
    error = first.error()
    stage.place(5, 5)
    eventually(lambda: stage.asked() == orders(0, 10))
    second.end()
    assert isinstance(error, TakenOverError)
    assert "took over process checkout" in error.message
