"""Deferred commands on a real broker: each ends with one final outcome, under any faults."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.deferred.patient import cancel, count, decided, entries, patient_topics, release, soon
from tests.support.commands import FAR
from tests.support.harness import TopicHarness
from tests.support.owners import Process, quietly, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def ward(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return patient_topics(connection, prefix, tmp_path)


def test_commands_wait_and_are_decided(ward: TopicHarness) -> None:
    """Commands wait for a time or for other commands, are cancelled, are released, and are copied."""
    ward.send(count("timed", notbefore=soon()), count("patient", ready=2), count("never", notbefore=FAR))
    with running(ward.plan(once=False)):
        eventually(lambda: decided(ward, "timed")[-1:] == [("accepted", "")])
        ward.send(count("never", notbefore=FAR), cancel("never"), cancel("nothing"))
        ward.send(count("asked", notbefore=FAR), release("asked"))
        ward.send(count("copy", deferredfrom="0/0"), count("timed", notbefore=soon(), deferredfrom="0/0"))
        eventually(lambda: decided(ward, "patient")[-1:] == [("accepted", "")])
        eventually(lambda: len(decided(ward, "never")) == 3 and len(decided(ward, "asked")) == 2)
    assert decided(ward, "timed")[0] == ("deferred", "NOT_YET")
    assert decided(ward, "timed")[1:2] == [("accepted", "")]
    assert set(decided(ward, "patient")[:-1]) == {("deferred", "LATER")}
    assert decided(ward, "never") == [("deferred", "NOT_YET"), ("duplicate", ""), ("rejected", "CANCELLED")]
    assert decided(ward, "cancel-never") == [("unchanged", "")]
    assert decided(ward, "cancel-nothing") == [("rejected", "NOT_FOUND")]
    assert decided(ward, "asked") == [("deferred", "NOT_YET"), ("accepted", "")]
    assert decided(ward, "copy") == [("failed", "NOT_RELEASED")]
    assert entries(ward) == {}
    assert ward.violations("state") == []


def test_lost_shard_keeps_the_waiting(ward: TopicHarness) -> None:
    ward.send(count("never", notbefore=FAR), count("other", notbefore=FAR), cancel("other"))
    quietly(ward.plan())
    assert ward.violations() == []
    quietly(ward.plan(machine="new"))
    ward.send(count("never", notbefore=FAR), release("never"))
    quietly(ward.plan(machine="new"))
    quietly(ward.plan(machine="third"))
    assert decided(ward, "never") == [("deferred", "NOT_YET"), ("duplicate", ""), ("accepted", "")]
    assert decided(ward, "other") == [("deferred", "NOT_YET"), ("rejected", "CANCELLED")]
    assert entries(ward) == {}
    assert ward.violations() == []


def days_ahead() -> float:
    return time.time() + 2 * 86_400


@pytest.mark.covers("deferred-once")
def test_clock_ahead_decides_nothing_early(ward: TopicHarness) -> None:
    """An owner whose clock is ahead resubmits a command too early only once, and then uses the broker's clock."""
    ward.send(count("tomorrow", notbefore=soon(86_400_000)), count("now", notbefore=soon(3_000)))
    plan = ward.plan(once=False)
    with running(replace(plan, timing=replace(plan.timing, clock=days_ahead))) as owner:
        eventually(lambda: len(decided(ward, "tomorrow")) == 2)
        eventually(lambda: decided(ward, "now")[-1:] == [("accepted", "")])
    assert any("s ahead of the broker's" in note for note in owner.notes())
    assert decided(ward, "tomorrow") == [("deferred", "NOT_YET")] * 2
    assert list(entries(ward)) == ["tomorrow"]
    assert ward.violations("state") == []


@pytest.mark.slow
@pytest.mark.covers("deferred-once")
@pytest.mark.parametrize(
    "point",
    [
        "again.said",
        "commit.after",
        *(
            pytest.param(point, marks=pytest.mark.nightly)
            for point in ("again.before", "again.noted", "apply.before", "recover.deferred")
        ),
    ],
)
def test_killed_owners_say_each_once(ward: TopicHarness, point: str) -> None:
    """An owner dies at a failpoint. Each deferred command ends once, also on a machine without the shard."""
    ids = [f"c{number}" for number in range(20)]
    ward.send(*(count(id, notbefore=soon()) for id in ids), count("never", notbefore=FAR))
    quietly(ward.plan())
    eventually(lambda: ward.records("commands")[-1].timestamp + 400 < time.time() * 1000)
    assert Process(ward.plan(), f"{point}:1:kill").killed()
    quietly(ward.plan(machine="new"))
    quietly(ward.plan())
    assert all(decided(ward, id) == [("deferred", "NOT_YET"), ("accepted", "")] for id in ids)
    assert list(entries(ward)) == ["never"]
    assert ward.violations() == []
