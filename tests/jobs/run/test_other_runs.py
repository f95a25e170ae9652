"""`run --once` while other runs exist."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.deciding.retire import retire
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.runs.other_runs import active_runs, undecided_part
from tests.deciding.deferred.patient import count, decided, patient_topics, soon
from tests.support.commands import FAR, increments, mixture
from tests.support.harness import TopicHarness
from tests.support.owners import Process, quietly, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def notes() -> list[str]:
    return []


def test_everything_is_decided_already(counters: TopicHarness, notes: list[str]) -> None:
    counters.send(*increments(5))
    quietly(counters.plan())
    before = counters.standing()
    assert undecided_part(counters.plan(), notes.append) is None
    assert (counters.standing(), notes) == (before, [])


def test_due_commands_are_left_to_say(
    connection: Connection, prefix: str, tmp_path: Path, notes: list[str]
) -> None:
    """All commands are decided, one of them is deferred, and it becomes due while no owner runs."""
    ward = patient_topics(connection, prefix, tmp_path)
    ward.send(count("timed", notbefore=soon()), count("never", notbefore=FAR))
    before = ward.plan()
    quietly(before)
    due = ward.records("commands")[0].timestamp + 300
    eventually(lambda: due < time.time() * 1000)
    plan = ward.plan()
    assert undecided_part(plan, notes.append, timeout=3600) is None, (
        "the claim of the run before says it is at work"
    )
    retire(before)
    assert undecided_part(plan, notes.append, timeout=3600) == plan
    quietly(plan)
    assert decided(ward, "timed") == [("deferred", "NOT_YET"), ("accepted", "")]


def test_nobody_else_is_at_work(counters: TopicHarness, notes: list[str]) -> None:
    counters.send(*increments(5))
    plan = counters.plan()
    assert undecided_part(plan, notes.append) == plan
    quietly(plan)
    retire(plan)
    counters.send(*increments(5, first=5))
    plan = counters.plan()
    assert (undecided_part(plan, notes.append), active_runs(plan), notes) == (plan, {}, [])


@pytest.mark.covers("one-owner")
def test_a_run_at_work_goes_on(counters: TopicHarness, notes: list[str]) -> None:
    with running(counters.plan(once=False)) as other:
        eventually(lambda: counters.owner() == other.plan.run)
        for batch in range(20):
            counters.send(*increments(100, first=100 * batch))
            plan = counters.plan()
            assert undecided_part(plan, notes.append) is None
            assert plan.targets == dict.fromkeys(plan.partitions(), (batch + 1) * 100)
            assert len(counters.outcomes()) >= 100 * (batch + 1)
        assert counters.owner() == other.plan.run
        assert active_runs(counters.plan()) == {other.plan.run: 2000}
    assert set(notes) <= {f"run {other.plan.run} is active: waiting until it has finished"}


def test_a_killed_run_is_not_waited_for(counters: TopicHarness, notes: list[str]) -> None:
    counters.send(*increments(5))
    dead = counters.plan(once=False)
    assert Process(dead, "decide.before:1:kill").killed()
    plan = counters.plan()
    assert undecided_part(plan, notes.append, timeout=0.1) == plan
    assert notes == [f"run {dead.run} is active: waiting until it has finished"]
    assert active_runs(plan) == {dead.run: 0}


def test_only_what_is_left_is_decided(counters: TopicHarness, bank: TopicHarness, notes: list[str]) -> None:
    """Only one of the two aggregates has undecided commands."""
    counters.send(*increments(5))
    quietly(counters.plan())
    bank.send(*mixture(5))
    plan, other = bank.plan(), counters.plan()
    assert plan.targets is not None and other.targets is not None
    both = replace(plan, topics={**plan.topics, **other.topics}, targets={**plan.targets, **other.targets})
    assert undecided_part(both, notes.append) == plan
