"""Races on a real broker: another process acts between two steps of an owner."""

from typing import Any

import pytest

from cqrs_cli import failpoints
from cqrs_cli.deciding.assigned_keys import AssignedKeys
from cqrs_cli.deciding.catch_up import fold_unfenced
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.errors import ContradictionError, TakenOverError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import Positions
from tests.deciding.repartitioned_counters import SUBJECTS
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error
from tests.support.repartitioning import repartition_topics

pytestmark = pytest.mark.kafka


@pytest.mark.covers("one-owner")
def test_a_fence_without_claim_is_harmless(counters: TopicHarness) -> None:
    counters.send(*increment_commands(5))
    stranger = producer(counters.connection, transactional_id=counters.topics.transactional_id(0))
    with failpoints.call_at("offsets.after", lambda: stranger.init_transactions(10)):
        run_plan(counters.plan())
    counters.check()


def test_a_contradiction_during_takeover_is_takeover(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters.send(*increment_commands(10))
    bounds, plan, unseen = OwnerSession.bounds, counters.plan(), ["outcomes"]

    def late(session: OwnerSession, kind: Kind) -> tuple[int, int]:
        ends = bounds(session, kind)
        if kind in unseen:
            unseen.remove(kind)
            run_plan(counters.plan(machine="other"))
        return ends

    monkeypatch.setattr(OwnerSession, "bounds", late)
    assert isinstance(run_plan_for_error(plan), TakenOverError)
    counters.check("other")


def test_briefly_short_log_contradicts_nothing(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    counters.send(*increment_commands(5, first=5))
    bounds, stale = OwnerSession.bounds, iter([True, True])

    def shown(session: OwnerSession, kind: Kind) -> tuple[int, int]:
        start, end = bounds(session, kind)
        return start, start if kind == "outcomes" and next(stale, False) else end

    monkeypatch.setattr(OwnerSession, "bounds", shown)
    run_plan(counters.plan(timing=Timing(inconsistency_timeout=60.0)))
    assert next(stale, None) is None
    counters.check()


@pytest.mark.covers("no-lost-update")
@pytest.mark.usefixtures("without_warm_up")
def test_brokers_that_lag_cause_no_second_decision(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale leader returns an old position and old logs: the owner commits no second decision.

    Old position and old logs agree with each other, but the first record gets another offset than expected. The stale
    read also moved the committed position back, which stops the run.
    """
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    then = {kind: counters.stable_end(kind) for kind in KINDS}
    counters.send(*increment_commands(5, first=5))
    run_plan(counters.plan())
    bounds, committed = OwnerSession.bounds, OwnerSession.read_commit
    stale = iter([True] * 5)

    def shown(session: OwnerSession, kind: Kind) -> tuple[int, int]:
        start, end = bounds(session, kind)
        return start, then[kind] if kind != "commands" and next(stale, False) else end

    def stood(session: OwnerSession, client: Any, *timeout: float) -> GroupCommit:
        offsets = committed(session, client, *timeout)
        return offsets._replace(offset=5) if next(lagging, False) else offsets

    lagging = iter([True])
    monkeypatch.setattr(OwnerSession, "bounds", shown)
    monkeypatch.setattr(OwnerSession, "read_commit", stood)
    error = run_plan_for_error(counters.plan(machine="other"))
    assert isinstance(error, ContradictionError) and "offset 5 is committed but 9 is decided" in error.message
    assert counters.decided_offsets() == list(range(10))


@pytest.mark.usefixtures("without_warm_up")
def test_a_briefly_short_read_stops_nothing(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    counters.send(*increment_commands(5, first=5))
    complete, stale = PartitionLog.read, iter([True, True])

    def elsewhere(log: PartitionLog, kind: Kind, start: int, end: int, *rest: Any) -> Any:
        beyond = 1000 if kind != "commands" and next(stale, False) else 0
        return complete(log, kind, start + beyond, end + beyond, *rest)

    plan = counters.plan(machine="other")
    monkeypatch.setattr(PartitionLog, "read", elsewhere)
    run_plan(plan)
    assert next(stale, None) is None
    counters.check("other")


def test_a_shard_taken_meanwhile_stays_cold(counters: TopicHarness) -> None:
    class Late(PartitionLog):
        def committed_position(self) -> GroupCommit:
            position = super().committed_position()
            store.take_ownership("9.9.other", "")
            return position

    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    plan = counters.plan()
    store, window = MemoryStore(plan.deciding.window), plan.deciding.window
    log = Late(plan.connection, counters.topics, 0)
    fold_unfenced(log, counters.aggregate, store, window, plan.cache_bytes, Measures())
    assert store.positions() == Positions()


@pytest.mark.covers("one-outcome")
def test_a_child_born_meanwhile_stays_cold(counters: TopicHarness) -> None:
    """A shard is not warmed after its activation: with own decisions it would never import the old data."""
    run_plan(counters.plan())
    repartition_topics(counters, 2)
    plan, child = counters.plan(), Partition("counter", 1)
    name = next(subject for subject in SUBJECTS if counters.partition_of(subject) == 1)

    def late() -> AssignedKeys:
        before = plan.read_assigned_keys(child)
        counters.send(*increment_commands(3, name))
        run_plan(counters.plan())
        return before

    store, window = MemoryStore(plan.deciding.window), plan.deciding.window
    cache_bytes, topic_id = plan.cache_bytes, plan.topics["counter"].ids["commands"]
    fold_unfenced(plan.log(child), counters.aggregate, store, window, cache_bytes, Measures(), topic_id, late)
    assert len(counters.outcomes(1)) == 3 and store.positions().outcomes == 0
