"""Deciding with a command's context: `decide` does not need to read a clock."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from tests.core.tally import command, record


class Note(cqrs.Command):
    pass


class Noted(cqrs.Event):
    at: tuple[str, int, datetime, str, str]


class Notes(cqrs.State):
    last: datetime | None = None


def decide(command: Note, notes: Notes, at: cqrs.Context) -> list[Noted]:
    if notes.last == at.time and at.command_id.startswith("once"):
        raise cqrs.Rejected("noted")
    return [Noted((at.aggregate_id, at.version, at.time, at.command_id, at.correlation_id))]


def evolve(notes: Notes, event: Noted) -> Notes:
    return Notes(event.at[2])


AGGREGATE = Aggregate.of("tally", cqrs.Decider(decide, evolve, initial=Notes()))
TIME = datetime(2025, 11, 21, 1, 2, 3, 456_000, tzinfo=UTC)
MILLISECONDS = 1763686923456


def decided_events(*values: bytes, timestamp: int = MILLISECONDS) -> list[dict[str, Any]]:
    """Return the events of these commands."""
    records = [record(offset, value, timestamp=timestamp) for offset, value in enumerate(values)]
    context = BatchContext(3, lambda _: None, lambda *_: None, lambda: 9_000_000_000_000)
    return [json.loads(value) for value, _, _ in decide_batch(AGGREGATE, records, context).events]


def test_context_has_id_version_and_time() -> None:
    first, second = decided_events(command("Note", {}), command("Note", {}, id="2", correlationid="order-9"))
    assert first["data"]["at"] == ["a", 0, "2025-11-21T01:02:03.456000Z", "1", "1"]
    assert second["data"]["at"] == ["a", 1, "2025-11-21T01:02:03.456000Z", "2", "order-9"]


@pytest.mark.parametrize("timestamp", [MILLISECONDS, -1, 2**62])
def test_context_has_the_time_of_events(timestamp: int) -> None:
    """The record's time counts, not the owner's clock. If it is outside the calendar, both have the epoch."""
    (event,) = decided_events(command("Note", {}), timestamp=timestamp)
    context_time = datetime.fromisoformat(event["data"]["at"][2])
    assert context_time == datetime.fromisoformat(event["time"]) and context_time.utcoffset() == timedelta(0)


def test_the_context_cannot_be_changed() -> None:
    at = cqrs.Context("a", 0, TIME, "1", "1")
    with pytest.raises(AttributeError, match="immutable"):
        at.version = 7  # type: ignore[misc]


@pytest.mark.parametrize("second", ["once", "once ä"])
def test_both_paths_pass_the_same_state(second: str) -> None:
    """The fast path and the general path give `decide` the same state."""
    assert len(decided_events(command("Note", {}), command("Note", {}, id=second))) == 1
