"""Folding events: each once, in order, and never beyond an inconsistency."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, VersionedState, fold_event, fold_next
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from tests.core.notes import event


class Note(cqrs.Command):
    text: str


class Noted(cqrs.Event):
    text: str


class Notes(cqrs.State):
    all: tuple[str, ...] = ()


def evolve(notes: Notes, event: Noted) -> Notes:
    if event.text == "bad":
        raise RuntimeError("evolve does not like it")
    if event.text == "full":
        raise OSError("no space left") from LookupError("the quota")
    return Notes((*notes.all, event.text))


def decide(command: Note, notes: Notes) -> list[Noted]:
    return [Noted(command.text)]


AGGREGATE = Aggregate.of("notes", cqrs.Decider(decide, evolve, Notes()))


def fold(*events: EventEnvelope, state: VersionedState | None = None) -> VersionedState | None:
    for envelope in events:
        state = fold_event(AGGREGATE, state, envelope)
    return state


def error_text(event: EventEnvelope, state: VersionedState | None = None) -> str:
    with pytest.raises(FoldError) as raised:
        fold_event(AGGREGATE, state, event)
    return str(raised.value)


def test_os_error_is_raised_with_its_cause() -> None:
    with pytest.raises(OSError, match="no space left") as raised:
        fold(event(1, "full"))
    assert isinstance(raised.value.__cause__, LookupError)


def test_events_lead_to_their_state() -> None:
    assert fold(event(1, "a"), event(2, "b")) == VersionedState(
        2, Notes(("a", "b")), 20, 0, "2026-11-21T01:02:03.002Z", 0
    )


@given(st.integers(1, 8), st.lists(st.integers(1, 8), max_size=20))
def test_folding_again_changes_nothing(count: int, versions: list[int]) -> None:
    state = fold(*(event(n, str(n)) for n in range(1, count + 1)))
    assert fold(*(event(n, str(n)) for n in versions if n <= count), state=state) is state


def test_missing_version_is_refused() -> None:
    assert error_text(event(2)) == "'a' is at version 0, but its next event has version 2: events are missing"
    assert (
        error_text(event(3), fold(event(1)))
        == "'a' is at version 1, but its next event has version 3: events are missing"
    )


@pytest.mark.parametrize("version", [0, -1])
def test_version_below_one_is_refused(version: int) -> None:
    assert "version" in error_text(event(version))


def test_second_event_of_version_is_refused() -> None:
    state = fold(event(1), event(2))
    assert error_text(event(2, id="0/21/0"), state) == "'a' has two events of version 2"
    assert error_text(event(2, id="0/20/1"), state) == "'a' has two events of version 2"

    assert error_text(event(2, id="1/20/0"), state) == "'a' has two events of version 2"


def test_fold_next_accepts_only_next_version() -> None:
    """Unlike `fold_event`, `fold_next` skips no earlier event: its caller must pass the next event."""
    for version, message in (
        (1, "has another event of version 1"),
        (2, "but its next event has version 2: events are missing"),
    ):
        with pytest.raises(FoldError, match=f"'a' is at version .* {message}"):
            fold_next(AGGREGATE, 1 if version == 1 else 0, Notes(), event(version))


class Weighed(cqrs.Event):
    grams: float


class Scale(cqrs.State):
    total: float = 0
    all: list[float] = field(default_factory=list)


def decide_weight(command: Note, scale: Scale) -> list[Weighed]:
    return [Weighed(float(command.text))]


def evolve_scale(scale: Scale, event: Weighed) -> Scale:
    """Return a state with an author's mistakes: an integer for a float, and a tuple for a list."""
    return Scale(round(scale.total + event.grams), (*scale.all, event.grams))  # type: ignore[arg-type]


@pytest.mark.covers("state-is-events")
def test_state_equals_its_stored_form() -> None:
    scales = Aggregate.of("scale", cqrs.Decider(decide_weight, evolve_scale, Scale()))
    first_event, second_event = (event(n, type="scale.Weighed", data={"grams": 7}) for n in (1, 2))
    first = fold_event(scales, None, first_event)
    assert first is not None and isinstance(first.state, Scale)
    assert first.state.all == [7.0] and repr(first.state.total) == "7.0"
    second = fold_event(scales, first, second_event)
    assert second is not None and scales.encode_state(second.state) == b'{"total":14.0,"all":[7.0,7.0]}'


def test_unreadable_state_is_refused() -> None:
    def evolve_to_number(notes: Notes, event: Noted) -> Notes:
        return Notes((event.text, 0.5))  # type: ignore[arg-type]

    notes = Aggregate.of("notes", cqrs.Decider(decide, evolve_to_number, Notes()))
    with pytest.raises(FoldError, match="evolve raised ValidationError: Expected `str`, got `float`"):
        fold_event(notes, None, event(1))


def test_unknown_event_is_refused() -> None:
    assert "knows no event notes.Gone" in error_text(event(1, type="notes.Gone"))


def test_raising_evolve_is_refused() -> None:
    message = error_text(event(1, "bad"))
    assert "evolve raised test_fold.py:" in message and "(on notes.Noted 0/10/0)" in message


@pytest.mark.parametrize("data", [{}, {"text": 1}, [], None])
def test_other_fields_are_refused(data: Any) -> None:
    message = error_text(event(1, data=data))
    assert "notes.Noted 0/10/0 does not match its class: " in message
    assert re.search(r" \(test_fold\.py:\d+\); events stay as they were written", message)


def test_newer_fields_are_ignored() -> None:
    assert fold(event(1, data={"text": "a", "mood": "fine"})) == fold(event(1, "a"))


@pytest.mark.parametrize("id", ["", "1", "1/2", "1/2/3/4", "a/b/c"])
def test_malformed_id_is_refused(id: str) -> None:
    with pytest.raises((FoldError, ValueError)):
        fold_event(AGGREGATE, None, event(1, id=id))


@pytest.mark.parametrize("value", [None, b"", b"{}", b"\xff", b"[]", b'{"id":1}', b"[" * 100_000])
def test_other_records_are_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError):
        read_event(value)
