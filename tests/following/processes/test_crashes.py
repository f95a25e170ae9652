"""SIGKILL at every arrow of the protocol, and owners that wake up: each event is reacted to once."""

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.following.processes.process_harness import DyingProcess, Stage, orders
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: Two partitions are claimed, one of orders and one of payments, which are the first two commits.
POINTS = [
    "fence.after:1",
    "claim.before:1",
    "claim.after:1",
    "decide.before:2",
    "decide.after:2",
    "produce.first:4",
    "produce.after:4",
    "offsets.after:4",
    "flush.after:4",
    "commit.sent:4",
    "commit.after:4",
    "commit.after:5",
]


@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize("point", POINTS)
def test_killed_owners_lose_nothing(stage: Stage, point: str) -> None:
    stage.place(0, 40)
    dying = DyingProcess(stage.plan(beginning=True), f"{point}:kill")
    assert dying.killed()
    stage.react(beginning=True)
    assert stage.asked() == orders(0, 40)


@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize("point", ["decide.after:2", "flush.after:4", "commit.after:4"])
def test_paused_owners_are_fenced(stage: Stage, point: str) -> None:
    """An owner that wakes up after a later owner has done its work writes nothing, and ends with exit code 6."""
    stage.place(0, 40)
    paused = DyingProcess(stage.plan(beginning=True), f"{point}:stop")
    eventually(paused.stopped)
    stage.react(beginning=True)
    assert stage.asked() == orders(0, 40)
    assert paused.go_on() == 6
    assert stage.asked() == orders(0, 40)


@pytest.mark.covers("reacted-once")
@pytest.mark.slow
def test_many_kills_lose_nothing(connection: Connection, prefix: str) -> None:
    stage = Stage(connection, prefix, partitions=2)
    stage.react()
    for partition in range(2):
        stage.place(0, 300, partition)
    for number in range(1, 12):
        point = ("produce.after", "flush.after", "commit.sent", "commit.after")[number % 4]
        DyingProcess(stage.plan(), f"{point}:{number}:kill", batch=11).killed()
    stage.react()
    assert stage.asked() == orders(0, 300) + orders(0, 300, 1)
