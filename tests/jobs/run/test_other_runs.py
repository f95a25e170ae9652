"""`run --once` while other runs exist."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.deciding.retire import retire
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.runs.other_runs import active_runs, undecided_part
from tests.deciding.deferred.deferring_topics import count_command, deferring_topics, near_future, outcomes_of
from tests.support.commands import FAR_FUTURE, increment_commands, mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def notes() -> list[str]:
    return []


def test_everything_is_decided_already(counters: TopicHarness, notes: list[str]) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    old_position = counters.position_and_claim()
    assert undecided_part(counters.plan(), notes.append) is None
    assert (counters.position_and_claim(), notes) == (old_position, [])


def test_due_deferred_commands_are_undecided(
    connection: Connection, prefix: str, tmp_path: Path, notes: list[str]
) -> None:
    """All commands are decided, one of them is deferred, and it becomes due while no owner runs."""
    harness = deferring_topics(connection, prefix, tmp_path)
    harness.send(
        count_command("timed", notbefore=near_future()), count_command("never", notbefore=FAR_FUTURE)
    )
    earlier_plan = harness.plan()
    run_plan(earlier_plan)
    due_time = harness.records("commands")[0].timestamp + 300
    eventually(lambda: due_time < time.time() * 1000)
    plan = harness.plan()
    assert undecided_part(plan, notes.append, timeout=3600) is None, (
        "the claim of the earlier run still counts as active"
    )
    retire(earlier_plan)
    assert undecided_part(plan, notes.append, timeout=3600) == plan
    run_plan(plan)
    assert outcomes_of(harness, "timed") == [("deferred", "NOT_YET"), ("accepted", "")]


def test_finished_run_is_not_waited_for(counters: TopicHarness, notes: list[str]) -> None:
    counters.send(*increment_commands(5))
    plan = counters.plan()
    assert undecided_part(plan, notes.append) == plan
    run_plan(plan)
    retire(plan)
    counters.send(*increment_commands(5, first=5))
    plan = counters.plan()
    assert (undecided_part(plan, notes.append), active_runs(plan), notes) == (plan, {}, [])


@pytest.mark.covers("one-owner")
def test_active_run_is_waited_for(counters: TopicHarness, notes: list[str]) -> None:
    with running_owners(counters.plan(once=False)) as running_run:
        eventually(lambda: counters.owning_run() == running_run.plan.run)
        for batch in range(20):
            counters.send(*increment_commands(100, first=100 * batch))
            plan = counters.plan()
            assert undecided_part(plan, notes.append) is None
            assert plan.end_offsets == dict.fromkeys(plan.partitions(), (batch + 1) * 100)
            assert len(counters.outcomes()) >= 100 * (batch + 1)
        assert counters.owning_run() == running_run.plan.run
        assert active_runs(counters.plan()) == {running_run.plan.run: 2000}
    assert set(notes) <= {f"run {running_run.plan.run} is active: waiting until it has finished"}


def test_a_killed_run_is_not_waited_for(counters: TopicHarness, notes: list[str]) -> None:
    counters.send(*increment_commands(5))
    killed_plan = counters.plan(once=False)
    assert OwnerProcess(killed_plan, "decide.before:1:kill").was_killed()
    plan = counters.plan()
    assert undecided_part(plan, notes.append, timeout=0.1) == plan
    assert notes == [f"run {killed_plan.run} is active: waiting until it has finished"]
    assert active_runs(plan) == {killed_plan.run: 0}


def test_plan_covers_only_undecided_aggregates(
    counters: TopicHarness, bank: TopicHarness, notes: list[str]
) -> None:
    """Only one of the two aggregates has undecided commands."""
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    bank.send(*mixed_commands(5))
    plan, counters_plan = bank.plan(), counters.plan()
    assert plan.end_offsets is not None and counters_plan.end_offsets is not None
    combined_plan = replace(
        plan,
        topics={**plan.topics, **counters_plan.topics},
        end_offsets={**plan.end_offsets, **counters_plan.end_offsets},
    )
    assert undecided_part(combined_plan, notes.append) == plan
