"""The driver during a takeover: how long it waits for more claims, and its message about remaining partitions."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.committed_claims import CommittedClaim
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.runs.takeover import Takeover
from tests.following.processes.process_harness import ProcessHarness
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka

COUNTER, OTHER = Partition("counter", 0), Partition("other", 0)
ERROR = TakenOverError("run x took over these topics")


@pytest.fixture
def plan(counters: TopicHarness) -> Plan:
    """The plan of a run with two aggregates."""
    plan = counters.plan()
    other = replace(plan.topics["counter"], topics=Topics("other", counters.topics.prefix))
    return replace(plan, topics={**plan.topics, "other": other})


@pytest.fixture
def harness(connection: Connection, prefix: str) -> ProcessHarness:
    return ProcessHarness(connection, prefix)


def claim_with_epoch(plan: Plan, increase: int) -> CommittedClaim:
    """Return a committed claim whose epoch is higher by `increase`."""
    claim = plan.claim(COUNTER, 0)
    return CommittedClaim(
        0, replace_struct(claim, run_epoch=claim.run_epoch + increase, run="x" if increase else claim.run)
    )


def test_time_counts_from_the_last_claim(plan: Plan) -> None:
    now = 100.0
    takeover = Takeover(plan, None, clock=lambda: now)
    takeover.observe_claims({COUNTER: claim_with_epoch(plan, 0), OTHER: claim_with_epoch(plan, -1)})
    now += 100
    assert not takeover.has_stalled(5)
    takeover.observe_claims({COUNTER: claim_with_epoch(plan, 1), OTHER: CommittedClaim(None, None)})
    now += 4
    takeover.observe_claims({COUNTER: claim_with_epoch(plan, 2), OTHER: claim_with_epoch(plan, 1)})
    now += 4
    assert not takeover.has_stalled(5)
    now += 2
    assert takeover.has_stalled(5)


def test_standby_waits_for_its_turn(plan: Plan) -> None:
    now = 100.0
    takeover = Takeover(replace(plan, timing=Timing(standby_timeout=1.0)), None, clock=lambda: now)
    takeover.observe_claims({COUNTER: claim_with_epoch(plan, 1)})
    now += 100
    assert not takeover.has_stalled(5)


def test_own_processes_take_nothing_over(plan: Plan, harness: ProcessHarness) -> None:
    """The run's process managers are prepared later, so their epoch is higher."""
    process_plan = replace(harness.plan(), run=plan.run, run_epoch=plan.run_epoch + 1)
    subscription, *_ = process_plan.subscriptions
    now = 100.0
    takeover = Takeover(plan, process_plan, clock=lambda: now)
    takeover.observe_claims({subscription: CommittedClaim(0, process_plan.claim(subscription, 0))})
    now += 100
    assert not takeover.has_stalled(5)


def test_error_names_taken_aggregates(plan: Plan) -> None:
    takeover = Takeover(plan, None)
    takeover.observe_claims({COUNTER: claim_with_epoch(plan, 1)})
    error = takeover.explain_error(ERROR)
    assert error.message == "run x took over counter; no run decides for other now"
    takeover.observe_claims({OTHER: claim_with_epoch(plan, 1)})
    assert takeover.explain_error(ERROR) is ERROR
