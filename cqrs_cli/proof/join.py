"""Join each command record with the index entries of its outcome, events and dead letter, in the order of offsets."""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.positions import ProvedPlace
from cqrs_cli.proof.traces import LIMIT, DeadLetterTrace, EventsTrace, Index, Lookup, OutcomeTrace

_T = TypeVar("_T")

_outcome: Callable[[bytes], OutcomeTrace] = msgspec.msgpack.Decoder(OutcomeTrace).decode
read_events_trace: Callable[[bytes], EventsTrace] = msgspec.msgpack.Decoder(EventsTrace).decode
_dead_letter: Callable[[bytes], DeadLetterTrace] = msgspec.msgpack.Decoder(DeadLetterTrace).decode


class JoinedCommand(NamedTuple):
    """The command at an offset, with its outcome, events and dead letter; a missing part is None."""

    offset: int
    command: Record | None
    outcome: OutcomeTrace | None
    events: EventsTrace | None
    dead_letter: DeadLetterTrace | None


def join(
    commands: Iterator[Record], outcomes: Index, events: Index, dead_letters: Index
) -> Iterator[JoinedCommand]:
    """Yield each offset that at least one of the sources has, in order."""
    records = _Head((record.offset, record) for record in commands)
    decided = _Head((offset, _outcome(trace)) for offset, trace in outcomes.items())
    facts = _Head((offset, read_events_trace(trace)) for offset, trace in events.items())
    failures = _Head((offset, _dead_letter(trace)) for offset, trace in dead_letters.items())
    while True:
        at = min(records.at, decided.at, facts.at, failures.at)
        if at == LIMIT:
            return
        yield JoinedCommand(at, records.take(at), decided.take(at), facts.take(at), failures.take(at))


class _Head(Generic[_T]):
    """The next item of a sorted source; `at` is its offset, `LIMIT` at the end."""

    def __init__(self, source: Iterator[tuple[int, _T]]) -> None:
        self._source = source
        self.at = -1
        self._value: _T | None = None
        self.take(-1)

    def take(self, offset: int) -> _T | None:
        """Return the next item and advance, if it has this offset; else return None."""
        if self.at != offset:
            return None
        value = self._value
        self.at, self._value = next(self._source, (LIMIT, None))
        return value


def find_outcome(outcomes: Lookup, command: ProvedPlace) -> OutcomeTrace | None:
    """Return the outcome of a command, or None."""
    trace = outcomes.get(command)
    return None if trace is None else _outcome(trace)


def find_first_outcome(outcomes: Index, command: int) -> tuple[int, OutcomeTrace] | None:
    """Return the first command from `command` on that has an outcome, with this outcome, or None."""
    if (outcome := find_outcome(outcomes, command)) is not None:
        return command, outcome
    later = ((offset, _outcome(trace)) for offset, trace in outcomes.items() if offset > command)
    return next(later, None)


def find_events(events: Index, command: int) -> EventsTrace | None:
    """Return the events of a command, or None."""
    trace = events.get(command)
    return None if trace is None else read_events_trace(trace)
