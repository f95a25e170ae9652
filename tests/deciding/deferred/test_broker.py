"""Deferred commands on a real broker: each ends with one final outcome, under any faults."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.deferred.deferring_topics import (
    cancel_command,
    count_command,
    deferred_entries,
    deferring_topics,
    near_future,
    outcomes_of,
    release_command,
)
from tests.support.commands import FAR_FUTURE
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return deferring_topics(connection, prefix, tmp_path)


def test_deferred_commands_are_decided(harness: TopicHarness) -> None:
    """Commands wait for a time or for other commands, are cancelled, are released, and are copied."""
    harness.send(
        count_command("timed", notbefore=near_future()),
        count_command("patient", ready=2),
        count_command("never", notbefore=FAR_FUTURE),
    )
    with running_owners(harness.plan(once=False)):
        eventually(lambda: outcomes_of(harness, "timed")[-1:] == [("accepted", "")])
        harness.send(
            count_command("never", notbefore=FAR_FUTURE), cancel_command("never"), cancel_command("nothing")
        )
        harness.send(count_command("asked", notbefore=FAR_FUTURE), release_command("asked"))
        harness.send(
            count_command("copy", deferredfrom="0/0"),
            count_command("timed", notbefore=near_future(), deferredfrom="0/0"),
        )
        eventually(lambda: outcomes_of(harness, "patient")[-1:] == [("accepted", "")])
        eventually(
            lambda: len(outcomes_of(harness, "never")) == 3 and len(outcomes_of(harness, "asked")) == 2
        )
    assert outcomes_of(harness, "timed")[0] == ("deferred", "NOT_YET")
    assert outcomes_of(harness, "timed")[1:2] == [("accepted", "")]
    assert set(outcomes_of(harness, "patient")[:-1]) == {("deferred", "LATER")}
    assert outcomes_of(harness, "never") == [
        ("deferred", "NOT_YET"),
        ("duplicate", ""),
        ("rejected", "CANCELLED"),
    ]
    assert outcomes_of(harness, "cancel-never") == [("unchanged", "")]
    assert outcomes_of(harness, "cancel-nothing") == [("rejected", "NOT_FOUND")]
    assert outcomes_of(harness, "asked") == [("deferred", "NOT_YET"), ("accepted", "")]
    assert outcomes_of(harness, "copy") == [("failed", "NOT_RELEASED")]
    assert deferred_entries(harness) == {}
    assert harness.violations("state") == []


def test_lost_shard_keeps_deferred_commands(harness: TopicHarness) -> None:
    harness.send(
        count_command("never", notbefore=FAR_FUTURE),
        count_command("other", notbefore=FAR_FUTURE),
        cancel_command("other"),
    )
    run_plan(harness.plan())
    assert harness.violations() == []
    run_plan(harness.plan(machine="new"))
    harness.send(count_command("never", notbefore=FAR_FUTURE), release_command("never"))
    run_plan(harness.plan(machine="new"))
    run_plan(harness.plan(machine="third"))
    assert outcomes_of(harness, "never") == [("deferred", "NOT_YET"), ("duplicate", ""), ("accepted", "")]
    assert outcomes_of(harness, "other") == [("deferred", "NOT_YET"), ("rejected", "CANCELLED")]
    assert deferred_entries(harness) == {}
    assert harness.violations() == []


def days_ahead() -> float:
    return time.time() + 2 * 86_400


@pytest.mark.covers("deferred-once")
def test_clock_ahead_decides_nothing_early(harness: TopicHarness) -> None:
    """An owner whose clock is ahead resubmits a command too early only once, and then uses the broker's clock."""
    harness.send(
        count_command("tomorrow", notbefore=near_future(86_400_000)),
        count_command("now", notbefore=near_future(3_000)),
    )
    plan = harness.plan(once=False)
    with running_owners(replace(plan, timing=replace(plan.timing, clock=days_ahead))) as owner:
        eventually(lambda: len(outcomes_of(harness, "tomorrow")) == 2)
        eventually(lambda: outcomes_of(harness, "now")[-1:] == [("accepted", "")])
    assert any("s ahead of the broker's" in note for note in owner.notes())
    assert outcomes_of(harness, "tomorrow") == [("deferred", "NOT_YET")] * 2
    assert list(deferred_entries(harness)) == ["tomorrow"]
    assert harness.violations("state") == []


@pytest.mark.slow
@pytest.mark.covers("deferred-once")
@pytest.mark.parametrize(
    "point",
    [
        "resubmit.produced",
        "commit.after",
        *(
            pytest.param(point, marks=pytest.mark.nightly)
            for point in ("resubmit.before", "resubmit.updated", "apply.before", "recover.deferred")
        ),
    ],
)
def test_killed_owners_resubmit_each_command_once(harness: TopicHarness, point: str) -> None:
    """An owner dies at a failpoint. Each deferred command ends once, also on a machine without the shard."""
    ids = [f"c{number}" for number in range(20)]
    harness.send(
        *(count_command(id, notbefore=near_future()) for id in ids),
        count_command("never", notbefore=FAR_FUTURE),
    )
    run_plan(harness.plan())
    eventually(lambda: harness.records("commands")[-1].timestamp + 400 < time.time() * 1000)
    assert OwnerProcess(harness.plan(), f"{point}:1:kill").was_killed()
    run_plan(harness.plan(machine="new"))
    run_plan(harness.plan())
    assert all(outcomes_of(harness, id) == [("deferred", "NOT_YET"), ("accepted", "")] for id in ids)
    assert list(deferred_entries(harness)) == ["never"]
    assert harness.violations() == []
