"""Joins each command with the index entries of its outcome, events and dead letter, in the order of the commands."""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.index_entries import (
    OFFSET_LIMIT,
    DeadLetterEntry,
    EventsEntry,
    Index,
    Lookup,
    OutcomeEntry,
)
from cqrs_cli.proof.positions import CommandPosition

_T = TypeVar("_T")

_decode_outcome: Callable[[bytes], OutcomeEntry] = msgspec.msgpack.Decoder(OutcomeEntry).decode
decode_events_entry: Callable[[bytes], EventsEntry] = msgspec.msgpack.Decoder(EventsEntry).decode
_decode_dead_letter: Callable[[bytes], DeadLetterEntry] = msgspec.msgpack.Decoder(DeadLetterEntry).decode


class JoinedCommand(NamedTuple):
    """A command with its outcome, events and dead letter. A missing part is None."""

    offset: int  # offset of the command
    command: Record | None
    outcome: OutcomeEntry | None
    events: EventsEntry | None
    dead_letter: DeadLetterEntry | None


def join(
    commands: Iterator[Record], outcomes: Index, events: Index, dead_letters: Index
) -> Iterator[JoinedCommand]:
    """Yield a `JoinedCommand` for each command offset that at least one of the sources has, in order."""
    records = _Head((record.offset, record) for record in commands)
    outcome_entries = _Head((offset, _decode_outcome(entry)) for offset, entry in outcomes.entries())
    event_entries = _Head((offset, decode_events_entry(entry)) for offset, entry in events.entries())
    dead_letter_entries = _Head(
        (offset, _decode_dead_letter(entry)) for offset, entry in dead_letters.entries()
    )
    while True:
        offset = min(records.offset, outcome_entries.offset, event_entries.offset, dead_letter_entries.offset)
        if offset == OFFSET_LIMIT:
            return
        yield JoinedCommand(
            offset,
            records.take_at(offset),
            outcome_entries.take_at(offset),
            event_entries.take_at(offset),
            dead_letter_entries.take_at(offset),
        )


class _Head(Generic[_T]):
    """The next item of a source that is sorted by offset. `offset`: its offset; `OFFSET_LIMIT` after the last item."""

    def __init__(self, source: Iterator[tuple[int, _T]]) -> None:
        self._source = source
        self.offset = -1
        self._value: _T | None = None
        self.take_at(-1)

    def take_at(self, offset: int) -> _T | None:
        """Return the next item and advance, if it has this offset; else return None."""
        if self.offset != offset:
            return None
        value = self._value
        self.offset, self._value = next(self._source, (OFFSET_LIMIT, None))
        return value


def find_outcome(outcomes: Lookup, command: CommandPosition) -> OutcomeEntry | None:
    """Return the outcome of a command, or None."""
    entry = outcomes.find_entry(command)
    return None if entry is None else _decode_outcome(entry)


def find_first_outcome(outcomes: Index, command_offset: int) -> tuple[int, OutcomeEntry] | None:
    """Return (command offset, outcome) of the first outcome for a command at or after `command_offset`, or None."""
    if (outcome := find_outcome(outcomes, command_offset)) is not None:
        return command_offset, outcome
    later_outcomes = (
        (offset, _decode_outcome(entry)) for offset, entry in outcomes.entries() if offset > command_offset
    )
    return next(later_outcomes, None)


def find_events(events: Index, command_offset: int) -> EventsEntry | None:
    """Return the events of a command, or None."""
    entry = events.find_entry(command_offset)
    return None if entry is None else decode_events_entry(entry)
