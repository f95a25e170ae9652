"""Races on a real broker: another process acts between two steps of an owner."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cqrs_cli import failpoints
from cqrs_cli.deciding.catch_up import fold_unfenced
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.keyspace.planned_key_space import PlannedKeySpace
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import Positions
from tests.deciding.repartitioned_counters import SUBJECTS
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error
from tests.support.repartitioning import repartition_topics

pytestmark = pytest.mark.kafka


def replace_bounds(monkeypatch: pytest.MonkeyPatch, bounds: Callable[..., tuple[int, int]]) -> None:
    """Let owners read the bounds of logs with `bounds`."""
    monkeypatch.setattr(OwnerSession, "bounds", bounds)


@pytest.mark.covers("one-owner")
def test_a_fence_without_claim_is_harmless(counters: TopicHarness) -> None:
    counters.send(*increment_commands(5))
    other_producer = producer(counters.connection, transactional_id=counters.topics.transactional_id(0))
    with failpoints.call_at("offsets.after", lambda: other_producer.init_transactions(10)):
        run_plan(counters.plan())
    counters.check()


def test_a_contradiction_during_takeover_is_takeover(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters.send(*increment_commands(10))
    bounds, plan, unseen_kinds = OwnerSession.bounds, counters.plan(), ["outcomes"]

    def bounds_after_takeover(session: OwnerSession, kind: Kind) -> tuple[int, int]:
        ends = bounds(session, kind)
        if kind in unseen_kinds:
            unseen_kinds.remove(kind)
            run_plan(counters.plan(machine="other"))
        return ends

    replace_bounds(monkeypatch, bounds_after_takeover)
    assert isinstance(run_plan_for_error(plan), TakenOverError)
    counters.check("other")


def test_briefly_short_log_contradicts_nothing(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    counters.send(*increment_commands(5, first=5))
    bounds, stale_reads = OwnerSession.bounds, iter([True, True])

    def stale_bounds(session: OwnerSession, kind: Kind) -> tuple[int, int]:
        start, end = bounds(session, kind)
        return start, start if kind == "outcomes" and next(stale_reads, False) else end

    replace_bounds(monkeypatch, stale_bounds)
    run_plan(counters.plan(timing=Timing(inconsistency_timeout=60.0)))
    assert next(stale_reads, None) is None
    counters.check()


@pytest.mark.covers("no-lost-update")
@pytest.mark.usefixtures("without_warm_up")
def test_brokers_that_lag_cause_no_second_decision(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale leader returns an old position and old logs: the owner commits no second decision.

    Old position and old logs agree with each other, but the first record gets another offset than expected. The next
    owner reads the last outcome, and continues after it.
    """
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    ends_before = {kind: counters.stable_end(kind) for kind in KINDS}
    counters.send(*increment_commands(5, first=5))
    run_plan(counters.plan())
    bounds, first_undecided = OwnerSession.bounds, OwnerSession.first_undecided
    stale_reads, stale_positions = iter([True] * 5), iter([True])

    def stale_bounds(session: OwnerSession, kind: Kind) -> tuple[int, int]:
        start, end = bounds(session, kind)
        return start, ends_before[kind] if kind != "commands" and next(stale_reads, False) else end

    def stale_position(session: OwnerSession, offset: int, claim: Claim | None) -> int:
        return 5 if next(stale_positions, False) else first_undecided(session, offset, claim)

    replace_bounds(monkeypatch, stale_bounds)
    monkeypatch.setattr(OwnerSession, "first_undecided", stale_position)
    run_plan(counters.plan(machine="other"))
    assert next(stale_reads, None) is None and next(stale_positions, None) is None
    assert counters.decided_offsets() == list(range(10))


@pytest.mark.usefixtures("without_warm_up")
def test_a_briefly_short_read_stops_nothing(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    counters.send(*increment_commands(5, first=5))
    read_complete, stale_reads = PartitionLog.read, iter([True, True])

    def read_beyond_end(log: PartitionLog, kind: Kind, start: int, end: int, *arguments: Any) -> Any:
        shift = 1000 if kind != "commands" and next(stale_reads, False) else 0
        return read_complete(log, kind, start + shift, end + shift, *arguments)

    plan = counters.plan(machine="other")
    monkeypatch.setattr(PartitionLog, "read", read_beyond_end)
    run_plan(plan)
    assert next(stale_reads, None) is None
    counters.check("other")


def test_shard_taken_over_meanwhile_is_not_warmed(counters: TopicHarness) -> None:
    class TakenOverLog(PartitionLog):
        def committed_position(self) -> GroupCommit:
            position = super().committed_position()
            store.take_ownership("9.9.other", "")
            return position

    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    plan = counters.plan()
    store, log = MemoryStore(plan.deciding.window), TakenOverLog(plan.connection, counters.topics, 0)
    fold_unfenced(plan, Partition("counter", 0), log, counters.aggregate, store)
    assert store.positions() == Positions()


@pytest.mark.covers("one-outcome")
def test_activated_child_partition_is_not_folded(counters: TopicHarness) -> None:
    """A child partition that has decided is not warmed: a shard with own decisions imports nothing from the parent."""
    run_plan(counters.plan())
    repartition_topics(counters, 2)
    plan, child = counters.plan(), Partition("counter", 1)
    subject = next(subject for subject in SUBJECTS if counters.partition_of(subject) == 1)

    class OutdatedKeySpace(PlannedKeySpace):
        def read_assigned_keys(self, *args: Any) -> AssignedKeys:
            assigned_keys = super().read_assigned_keys(*args)
            counters.send(*increment_commands(3, subject))
            run_plan(counters.plan())
            return assigned_keys

    key_space = OutdatedKeySpace(counters.topics, "murmur2", 2)
    plan, store = replace(plan, key_spaces={"counter": key_space}), MemoryStore(plan.deciding.window)
    fold_unfenced(plan, child, plan.log(child), counters.aggregate, store)
    assert len(counters.outcomes(1)) == 3 and store.positions().outcomes == 0
