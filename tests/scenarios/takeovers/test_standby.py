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


def await_decided(counters: TopicHarness, count: int) -> None:
    eventually(lambda: len(counters.outcomes()) >= count)


@pytest.mark.covers("one-owner")
def test_idle_run_is_not_taken_over(counters: TopicHarness) -> None:
    """An idle run sends heartbeats. The standby takes over only once the idle run has ended, and then at once."""
    first, second = counters.plan(once=False), standby_plan(counters, "second", LONG_STANDBY_TIMEOUT)
    with ExitStack() as stack:
        stack.enter_context(running_with_heartbeats(counters, first))
        eventually(lambda: counters.owning_run() == first.run)
        standby = stack.enter_context(running_with_heartbeats(counters, second))
        counters.send(*increment_commands(4))
        await_decided(counters, 4)
        assert not standby.stopping.wait(1.5 * LONG_STANDBY_TIMEOUT) and counters.owning_run() == first.run
        retire(first)
        eventually(lambda: counters.owning_run() == second.run)
        counters.send(*increment_commands(3, first=4))
        await_decided(counters, 7)
    counters.check("second")


@pytest.mark.covers("no-lost-update")
def test_silent_run_is_taken_over(counters: TopicHarness) -> None:
    """A standby takes over from a run without heartbeats. The silent run, still alive, ends as after every takeover."""
    active, standby = counters.plan(once=False), standby_plan(counters, "second")
    counters.send(*increment_commands(3))
    with running_without_heartbeats(counters, active) as run:
        await_decided(counters, 3)
        with running_with_heartbeats(counters, standby):
            eventually(lambda: counters.owning_run() == standby.run)
            counters.send(*increment_commands(3, first=3))
            await_decided(counters, 6)
            assert isinstance(eventually(lambda: run.error), TakenOverError)
    counters.check("second")


@pytest.mark.covers("one-outcome")
def test_killed_run_is_taken_over(counters: TopicHarness) -> None:
    counters.send(*increment_commands(200))
    active = OwnerProcess(counters.plan(once=False), "commit.after:3:kill", batch_limit=20)
    assert active.was_killed()
    with running_with_heartbeats(counters, standby_plan(counters, "second")):
        await_decided(counters, 200)
    counters.check("second")


def test_status_names_standby_runs(counters: TopicHarness) -> None:
    """After the takeover, the run is no longer listed as a standby."""
    first, standbys = (
        counters.plan(once=False),
        [standby_plan(counters, name) for name in ("second", "third")],
    )

    def standby_runs() -> set[str]:
        (status,) = aggregate_statuses(counters.connection, counters.topics, counters.folder / "state")
        return set(status.standbys)

    with ExitStack() as stack:
        with running_with_heartbeats(counters, first):
            eventually(lambda: counters.owning_run() == first.run)
            for plan in standbys:
                stack.enter_context(running_with_heartbeats(counters, plan))
            eventually(lambda: standby_runs() == {plan.run for plan in standbys})
            retire(first)
        eventually(lambda: standby_runs() == {plan.run for plan in standbys} - {counters.owning_run()})


def test_other_code_does_not_take_over(counters: TopicHarness) -> None:
    """The active run has written an event that the standby cannot read: the standby reports it and waits."""
    first, second = counters.plan(once=False), standby_plan(counters, "second")
    counters.send(*increment_commands(3))
    with ExitStack() as stack:
        stack.enter_context(running_with_heartbeats(counters, first))
        await_decided(counters, 3)
        standby = stack.enter_context(running_with_heartbeats(counters, second))
        event = counters.records("events")[0]
        assert event.value is not None
        value = event.value.replace(b"counter.Incremented", b"counter.Unheard").replace(b'"a"', b'"new"')
        append_records(counters, "events", structs.replace(event, key=b"new", value=value))
        eventually(lambda: any("cannot take over" in note for note in standby.notes))
        retire(first)
        assert not standby.stopping.wait(2 * STANDBY_TIMEOUT) and counters.owning_run() == first.run
        assert standby.measures.step == "warm" and standby.error is None


def has_other_owner(counters: TopicHarness, owner: str | None) -> bool:
    return counters.owning_run() != owner


@pytest.mark.covers("one-outcome")
def test_mutual_takeovers_repeat_no_command(counters: TopicHarness) -> None:
    """Two runs without heartbeats take over from each other repeatedly: no command is decided twice."""
    plans = [standby_plan(counters, machine) for machine in ("first", "second")]
    owners: list[str | None] = []
    with ExitStack() as stack:
        runs = [stack.enter_context(running_without_heartbeats(counters, plan)) for plan in plans]
        for number in range(6):
            counters.send(*increment_commands(20, first=20 * number))
            await_decided(counters, 20 * (number + 1))
            owners.append(owner := counters.owning_run())
            eventually(partial(has_other_owner, counters, owner))
        assert not any(run.error for run in runs)
    assert set(owners) == {plan.run for plan in plans}
    counters.check("first")


def acknowledged_owner(counters: TopicHarness, runs: list[DecidingSupervisor]) -> str | None:
    """Return the owner once the other run reports its standby mode; None before."""
    owner = counters.owning_run()
    notes = {note for run in runs for note in run.notes if run.own_claim.run != owner}
    return owner if any(f"run {owner} is active" in note for note in notes) else None


def test_one_of_two_standbys_takes_over(counters: TopicHarness) -> None:
    """The active run ends: one of two standby runs takes over, and the other stays in standby mode.

    Both may start at once, because the active run has announced its end. Then the later run takes over from the
    earlier.
    """
    first = counters.plan(once=False)
    standbys = [standby_plan(counters, machine, LONG_STANDBY_TIMEOUT) for machine in ("second", "third")]
    with ExitStack() as stack:
        stack.enter_context(running_with_heartbeats(counters, first))
        eventually(lambda: counters.owning_run() == first.run)
        runs = [stack.enter_context(running_with_heartbeats(counters, plan)) for plan in standbys]
        retire(first)
        eventually(lambda: has_other_owner(counters, first.run))
        new_owner = eventually(lambda: acknowledged_owner(counters, runs))
        counters.send(*increment_commands(10))
        await_decided(counters, 10)
        assert not runs[0].stopping.wait(1.5 * LONG_STANDBY_TIMEOUT) and counters.owning_run() == new_owner
        assert not any(run.error for run in runs)
    counters.check("second")
