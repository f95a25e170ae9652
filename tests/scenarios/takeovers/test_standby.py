"""Standby runs on a real broker: each takes over when the active run ends or sends no heartbeats."""

from contextlib import ExitStack
from functools import partial

import pytest
from msgspec import structs

from cqrs_cli.deciding.retire import retire
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.errors import TakenOverError
from cqrs_cli.status.aggregates import aggregate_statuses
from tests.support.commands import increment_commands
from tests.support.foreign_records import append_records
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess
from tests.support.standby_runs import (
    LONG_STANDBY_TIMEOUT,
    STANDBY_TIMEOUT,
    running_with_heartbeats,
    running_without_heartbeats,
    standby_plan,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def decided(counters: TopicHarness, count: int) -> None:
    eventually(lambda: len(counters.outcomes()) >= count)


@pytest.mark.covers("one-owner")
def test_idle_run_is_not_taken_over(counters: TopicHarness) -> None:
    """An idle run sends heartbeats. The standby takes over only once the idle run has ended, and then at once."""
    first, second = counters.plan(once=False), standby_plan(counters, "second", LONG_STANDBY_TIMEOUT)
    with ExitStack() as stack:
        stack.enter_context(running_with_heartbeats(counters, first))
        eventually(lambda: counters.owning_run() == first.run)
        ready = stack.enter_context(running_with_heartbeats(counters, second))
        counters.send(*increment_commands(4))
        decided(counters, 4)
        assert not ready.stopping.wait(1.5 * LONG_STANDBY_TIMEOUT) and counters.owning_run() == first.run
        retire(first)
        eventually(lambda: counters.owning_run() == second.run)
        counters.send(*increment_commands(3, first=4))
        decided(counters, 7)
    counters.check("second")


@pytest.mark.covers("no-lost-update")
def test_silent_run_is_taken_over(counters: TopicHarness) -> None:
    """A standby takes over from a run without heartbeats. The silent run, still alive, ends as after every takeover."""
    before, ready = counters.plan(once=False), standby_plan(counters, "second")
    counters.send(*increment_commands(3))
    with running_without_heartbeats(counters, before) as run:
        decided(counters, 3)
        with running_with_heartbeats(counters, ready):
            eventually(lambda: counters.owning_run() == ready.run)
            counters.send(*increment_commands(3, first=3))
            decided(counters, 6)
            assert isinstance(eventually(lambda: run.error), TakenOverError)
    counters.check("second")


@pytest.mark.covers("one-outcome")
def test_killed_run_is_followed(counters: TopicHarness) -> None:
    counters.send(*increment_commands(200))
    killed = OwnerProcess(counters.plan(once=False), "commit.after:3:kill", batch_limit=20)
    assert killed.was_killed()
    with running_with_heartbeats(counters, standby_plan(counters, "second")):
        decided(counters, 200)
    counters.check("second")


def test_status_names_who_stands_by(counters: TopicHarness) -> None:
    """After the takeover, the run is no longer listed as a standby."""
    first, others = counters.plan(once=False), [standby_plan(counters, name) for name in ("second", "third")]

    def named() -> set[str]:
        (place,) = aggregate_statuses(counters.connection, counters.topics, counters.folder / "state")
        return set(place.standbys)

    with ExitStack() as stack:
        with running_with_heartbeats(counters, first):
            eventually(lambda: counters.owning_run() == first.run)
            for plan in others:
                stack.enter_context(running_with_heartbeats(counters, plan))
            eventually(lambda: named() == {plan.run for plan in others})
            retire(first)
        eventually(lambda: named() == {plan.run for plan in others} - {counters.owning_run()})


def test_other_code_does_not_take_over(counters: TopicHarness) -> None:
    """The active run has written an event that the standby cannot read: the standby reports it and waits."""
    first, second = counters.plan(once=False), standby_plan(counters, "second")
    counters.send(*increment_commands(3))
    with ExitStack() as stack:
        stack.enter_context(running_with_heartbeats(counters, first))
        decided(counters, 3)
        ready = stack.enter_context(running_with_heartbeats(counters, second))
        event = counters.records("events")[0]
        assert event.value is not None
        value = event.value.replace(b"counter.Incremented", b"counter.Unheard").replace(b'"a"', b'"new"')
        append_records(counters, "events", structs.replace(event, key=b"new", value=value))
        eventually(lambda: any("cannot take over" in note for note in ready.notes))
        retire(first)
        assert not ready.stopping.wait(2 * STANDBY_TIMEOUT) and counters.owning_run() == first.run
        assert ready.measures.step == "warm" and ready.error is None


def is_followed(counters: TopicHarness, before: str | None) -> bool:
    return counters.owning_run() != before


@pytest.mark.covers("one-outcome")
def test_runs_that_suspect_each_other_harm_nothing(counters: TopicHarness) -> None:
    """Two runs without heartbeats take over from each other repeatedly: no command is decided twice."""
    plans = [standby_plan(counters, machine) for machine in ("first", "second")]
    owners: list[str | None] = []
    with ExitStack() as stack:
        runs = [stack.enter_context(running_without_heartbeats(counters, plan)) for plan in plans]
        for number in range(6):
            counters.send(*increment_commands(20, first=20 * number))
            decided(counters, 20 * (number + 1))
            owners.append(before := counters.owning_run())
            eventually(partial(is_followed, counters, before))
        assert not any(run.error for run in runs)
    assert set(owners) == {plan.run for plan in plans}
    counters.check("first")


def settled_owner(counters: TopicHarness, runs: list[DecidingSupervisor]) -> str | None:
    """Return the owner once the other run reports its standby mode; None before."""
    owner = counters.owning_run()
    notes = {note for run in runs for note in run.notes if run.own_claim.run != owner}
    return owner if any(f"run {owner} is active" in note for note in notes) else None


def test_three_runs_leave_each_other_in_peace(counters: TopicHarness) -> None:
    """The active run ends: one of two standby runs takes over, and the other stays in standby mode.

    Both may start at once, because the active run has announced its end. Then the later run takes over from the
    earlier.
    """
    first = counters.plan(once=False)
    others = [standby_plan(counters, machine, LONG_STANDBY_TIMEOUT) for machine in ("second", "third")]
    with ExitStack() as stack:
        stack.enter_context(running_with_heartbeats(counters, first))
        eventually(lambda: counters.owning_run() == first.run)
        runs = [stack.enter_context(running_with_heartbeats(counters, plan)) for plan in others]
        retire(first)
        eventually(lambda: is_followed(counters, first.run))
        chosen = eventually(lambda: settled_owner(counters, runs))
        counters.send(*increment_commands(10))
        decided(counters, 10)
        assert not runs[0].stopping.wait(1.5 * LONG_STANDBY_TIMEOUT) and counters.owning_run() == chosen
        assert not any(run.error for run in runs)
    counters.check("second")
