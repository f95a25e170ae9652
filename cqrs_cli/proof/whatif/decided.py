"""The verdict of history on each command: commands, outcomes and events, joined in the order of the commands.

The logs are read side by side, so that nothing of them has to be kept.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import LogName

_T = TypeVar("_T")


class HistoryError(Exception):
    """The record at `offset` of a log does not fit the others; the caller adds topic and partition."""

    def __init__(self, kind: LogName, offset: int, what: str) -> None:
        super().__init__(what)
        self.kind: LogName = kind
        self.offset = offset


class OwnerRecord(NamedTuple, Generic[_T]):
    """A record of an owner's log, read, with the offset of the command it came of."""

    command: int
    record: Record
    message: _T


class Lookahead(Generic[_T]):
    """Records in the order of their commands, which are handed out up to a command. The next record waits."""

    def __init__(self, placed: Iterator[OwnerRecord[_T]]) -> None:
        self._placed = placed
        self._next = next(placed, None)

    @property
    def command(self) -> int | None:
        """The command of the next record; None at the end."""
        return None if self._next is None else self._next.command

    def below(self, command: int) -> Iterator[OwnerRecord[_T]]:
        """The next records, as long as they came of a command before this one."""
        while self._next is not None and self._next.command < command:
            found, self._next = self._next, next(self._placed, None)
            yield found


class DecidedCommand(NamedTuple):
    """A command, and what history made of it."""

    record: Record
    outcome: OutcomeEnvelope
    timestamp: int
    events: list[OwnerRecord[EventEnvelope]]


def placed_outcomes(records: Iterable[Record]) -> Iterator[OwnerRecord[OutcomeEnvelope]]:
    """Outcomes in the order of the log; raises `HistoryError` for another record, and for one out of order."""
    last = -1
    for record in records:
        try:
            outcome = read_outcome(record.value)
        except ValueError as error:
            raise HistoryError("outcomes", record.offset, f"is not an outcome: {error}") from None
        command = outcome.data.offset
        if command <= last:
            raise HistoryError("outcomes", record.offset, f"is of command {command}, after that of {last}")
        last = command
        yield OwnerRecord(command, record, outcome)


def placed_events(records: Iterable[Record]) -> Iterator[OwnerRecord[EventEnvelope]]:
    """Events in the order of the log; raises `HistoryError` for another record, and for one out of order."""
    last = -1
    for record in records:
        try:
            event = read_event(record.value)
            command = event.position()[1]
        except ValueError as error:
            raise HistoryError("events", record.offset, f"is not an event: {error}") from None
        if command < last:
            raise HistoryError("events", record.offset, f"is of command {command}, after those of {last}")
        last = command
        yield OwnerRecord(command, record, event)


def join_history(
    commands: Iterable[Record], outcomes: Lookahead[OutcomeEnvelope], events: Lookahead[EventEnvelope]
) -> Iterator[DecidedCommand]:
    """The commands that are decided, each with its outcome and its events; ends before the first that is not.

    Raises `HistoryError` for a command or an outcome that has no counterpart.
    """
    for record in commands:
        if outcomes.command is None:
            return
        found = list(outcomes.below(record.offset + 1))
        if not found:
            raise HistoryError("commands", record.offset, "has no outcome, though later ones have")
        outcome = found[0]
        if outcome.command != record.offset:
            raise HistoryError(
                "outcomes", outcome.record.offset, f"is of command {outcome.command}, which does not exist"
            )
        mine = list(events.below(record.offset + 1))
        yield DecidedCommand(record, outcome.message, outcome.record.timestamp, mine)
