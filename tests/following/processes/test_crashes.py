"""SIGKILL at every step of the protocol, and owners that resume after a pause: each event causes its commands once."""

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.following.processes.process_harness import ForkedRun, ProcessHarness, expected_payments
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: Failpoints, with the number of the pass at which they act. The first two commits are claims: of orders and payments.
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
def test_killed_owners_lose_nothing(harness: ProcessHarness, point: str) -> None:
    harness.place_orders(0, 40)
    run = ForkedRun(harness.plan(from_beginning=True), f"{point}:kill")
    assert run.was_killed()
    harness.run_once(from_beginning=True)
    assert harness.payment_requests() == expected_payments(0, 40)


@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize("point", ["decide.after:2", "flush.after:4", "commit.after:4"])
def test_paused_owners_are_fenced(harness: ProcessHarness, point: str) -> None:
    """An owner that resumes after a later owner has done its work writes nothing, and ends with exit code 6."""
    harness.place_orders(0, 40)
    paused = ForkedRun(harness.plan(from_beginning=True), f"{point}:stop")
    eventually(paused.is_paused)
    harness.run_once(from_beginning=True)
    assert harness.payment_requests() == expected_payments(0, 40)
    assert paused.resume() == 6
    assert harness.payment_requests() == expected_payments(0, 40)


@pytest.mark.covers("reacted-once")
@pytest.mark.slow
def test_many_kills_lose_nothing(connection: Connection, prefix: str) -> None:
    harness = ProcessHarness(connection, prefix, partitions=2)
    harness.run_once()
    for partition in range(2):
        harness.place_orders(0, 300, partition)
    for number in range(1, 12):
        point = ("produce.after", "flush.after", "commit.sent", "commit.after")[number % 4]
        ForkedRun(harness.plan(), f"{point}:{number}:kill", batch=11).was_killed()
    harness.run_once()
    assert harness.payment_requests() == expected_payments(0, 300) + expected_payments(0, 300, 1)
