"""Every command with what came of it: its record and its traces, side by side in the order of their offsets."""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.traces import LIMIT, DeadLetterTrace, EventsTrace, Index, OutcomeTrace

T = TypeVar("T")

_told: Callable[[bytes], OutcomeTrace] = msgspec.msgpack.Decoder(OutcomeTrace).decode
_written: Callable[[bytes], EventsTrace] = msgspec.msgpack.Decoder(EventsTrace).decode
_buried: Callable[[bytes], DeadLetterTrace] = msgspec.msgpack.Decoder(DeadLetterTrace).decode


class Row(NamedTuple):
    """What there is of the command at an offset; None is what is not there."""

    offset: int
    command: Record | None
    told: OutcomeTrace | None
    written: EventsTrace | None
    buried: DeadLetterTrace | None


def rows(commands: Iterator[Record], outcomes: Index, events: Index, letters: Index) -> Iterator[Row]:
    """All of them; what is in one place only has a row too."""
    command = _Head((record.offset, record) for record in commands)
    told = _Head((offset, _told(trace)) for offset, trace in outcomes.items())
    written = _Head((offset, _written(trace)) for offset, trace in events.items())
    buried = _Head((offset, _buried(trace)) for offset, trace in letters.items())
    while True:
        offset = min(command.at, told.at, written.at, buried.at)
        if offset == LIMIT:
            return
        yield Row(offset, command.take(offset), told.take(offset), written.take(offset), buried.take(offset))


class _Head(Generic[T]):
    """The first of what is left of a sorted source; `at` is its offset."""

    def __init__(self, source: Iterator[tuple[int, T]]) -> None:
        self._source = source
        self.at = -1
        self._value: T | None = None
        self.take(-1)

    def take(self, offset: int) -> T | None:
        """The first one and on to the next, if it has this offset."""
        if self.at != offset:
            return None
        value = self._value
        self.at, self._value = next(self._source, (LIMIT, None))
        return value


def told_of(outcomes: Index, command: int) -> OutcomeTrace | None:
    """What the outcome of a command tells."""
    trace = outcomes.get(command)
    return None if trace is None else _told(trace)


def first_told(outcomes: Index, command: int) -> tuple[int, OutcomeTrace] | None:
    """The first command from `command` on that has an outcome, and what that tells."""
    if (told := told_of(outcomes, command)) is not None:
        return command, told
    later = ((offset, _told(trace)) for offset, trace in outcomes.items() if offset > command)
    return next(later, None)


def written_by(events: Index, command: int) -> EventsTrace | None:
    """The events of a command."""
    trace = events.get(command)
    return None if trace is None else _written(trace)
