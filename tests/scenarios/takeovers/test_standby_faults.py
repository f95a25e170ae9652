"""A run dies between any two steps of the protocol, and a standby decides the remaining commands, on a real broker."""

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
HIT_COUNTS = {"commit.sent": 3, "commit.after": 3, "apply.before": 2, "apply.inside": 2, "apply.after": 2}

#: Failpoints that only a terminating run passes.
TERMINATION_POINTS = {"shard.closing", "shard.closed"}

POINTS = [
    pytest.param(point, marks=[] if point in SAMPLE else pytest.mark.nightly)
    for point in ALWAYS_PASSED
    if point not in TERMINATION_POINTS
]


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("point", POINTS)
def test_standby_takes_over_after_any_kill(counters: TopicHarness, point: str) -> None:
    """A run dies at a failpoint, and the standby decides the remaining commands: a sample, all nightly.

    The dying run took over from the standby before, and sends heartbeats until its death.
    """
    plan = standby_plan(counters, "second", LONG_STANDBY_TIMEOUT)
    with running_with_heartbeats(counters, plan) as standby:
        counters.send(*increment_commands(30))
        counters.await_outcomes(30)
        active = counters.plan(once=False)
        heartbeat_sender = HeartbeatSender(
            active.connection, active.run, active.claim_slots().values(), LONG_STANDBY_TIMEOUT
        )
        with heartbeat_sender, ClaimReader(active.connection, active.claim_slots()) as reader:
            owner = OwnerProcess(
                active, f"{point}:{HIT_COUNTS.get(point, 1)}:kill", batch_limit=10, apply_every=20
            )
            eventually(lambda: owner.has_ended() or has_claimed(active, reader))
            counters.send(*increment_commands(170, first=30))
            assert owner.was_killed()
        counters.await_outcomes(200)
        assert standby.error is None and counters.owning_run() == plan.run
    counters.check("second")
