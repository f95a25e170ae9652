"""A run dies at every arrow of the protocol, and a standby decides the remaining commands, on a real broker."""

import pytest

from cqrs_cli.ownership.committed_claims import ClaimReader
from cqrs_cli.ownership.standby import HeartbeatSender
from tests.support.commands import increment_commands
from tests.support.failpoints import ALWAYS_PASSED
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess
from tests.support.standby_runs import (
    LONG_STANDBY_TIMEOUT,
    has_claimed,
    running_with_heartbeats,
    standby_plan,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: The failpoints of every test run: an interrupted takeover, and a commit without a reply.
SAMPLE = {"fence.after", "commit.sent"}

#: Hit counts that select the later batches, not the first steps of a starting run.
LATER = {"commit.sent": 3, "commit.after": 3, "apply.before": 2, "apply.inside": 2, "apply.after": 2}

#: Failpoints that only a terminating run passes.
ENDING = {"shard.closing", "shard.closed"}

POINTS = [
    pytest.param(point, marks=[] if point in SAMPLE else pytest.mark.nightly)
    for point in ALWAYS_PASSED
    if point not in ENDING
]


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("point", POINTS)
def test_standby_follows_any_kill(counters: TopicHarness, point: str) -> None:
    """A run dies at a failpoint, and the standby decides the remaining commands: a sample, all nightly.

    The dying run took over from the standby before, and sends heartbeats until its death.
    """
    plan = standby_plan(counters, "second", LONG_STANDBY_TIMEOUT)
    with running_with_heartbeats(counters, plan) as ready:
        counters.send(*increment_commands(30))
        counters.await_outcomes(30)
        dying = counters.plan(once=False)
        heart = HeartbeatSender(
            dying.connection, dying.run, dying.claim_slots().values(), LONG_STANDBY_TIMEOUT
        )
        with heart, ClaimReader(dying.connection, dying.claim_slots()) as reader:
            victim = OwnerProcess(
                dying, f"{point}:{LATER.get(point, 1)}:kill", batch_limit=10, apply_every=20
            )
            eventually(lambda: victim.has_ended() or has_claimed(dying, reader))
            counters.send(*increment_commands(170, first=30))
            assert victim.was_killed()
        counters.await_outcomes(200)
        assert ready.error is None and counters.owning_run() == plan.run
    counters.check("second")
