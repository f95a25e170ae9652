"""Join commands, outcomes and events in the order of the commands.

The logs are read side by side, command by command, so only the records of one command are in memory.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import LogName

_T = TypeVar("_T")


class HistoryError(Exception):
    """The record at `offset` of a log contradicts the other logs. The caller adds topic and partition."""

    def __init__(self, log: LogName, offset: int, problem: str) -> None:
        super().__init__(problem)
        self.log: LogName = log
        self.offset = offset


class OwnerRecord(NamedTuple, Generic[_T]):
    """A decoded record of a log that owners write, with the offset of its command."""

    command: int  # the offset of the command
    record: Record
    message: _T


class Lookahead(Generic[_T]):
    """An iterator over records in the order of their commands, with a look at the next record."""

    def __init__(self, records: Iterator[OwnerRecord[_T]]) -> None:
        self._records = records
        self._next = next(records, None)

    @property
    def command(self) -> int | None:
        """The command offset of the next record; None at the end."""
        return None if self._next is None else self._next.command

    def take_before(self, command_offset: int) -> Iterator[OwnerRecord[_T]]:
        """Yield the next records of commands before `command_offset`."""
        while self._next is not None and self._next.command < command_offset:
            record, self._next = self._next, next(self._records, None)
            yield record


class DecidedCommand(NamedTuple):
    """A command with its outcome and events in the log."""

    record: Record
    outcome: OutcomeEnvelope
    timestamp: int
    events: list[OwnerRecord[EventEnvelope]]


def decoded_outcomes(records: Iterable[Record]) -> Iterator[OwnerRecord[OutcomeEnvelope]]:
    """Yield decoded outcomes in the order of the log; raise `HistoryError` for a foreign or out-of-order record."""
    last = -1
    for record in records:
        try:
            outcome = read_outcome(record.value)
        except ValueError as error:
            raise HistoryError("outcomes", record.offset, f"is not an outcome: {error}") from None
        command = outcome.data.offset
        if command <= last:
            raise HistoryError(
                "outcomes",
                record.offset,
                f"is of command {command}, but follows the outcome of command {last}",
            )
        last = command
        yield OwnerRecord(command, record, outcome)


def decoded_events(records: Iterable[Record]) -> Iterator[OwnerRecord[EventEnvelope]]:
    """Yield decoded events in the order of the log; raise `HistoryError` for a foreign or out-of-order record."""
    last = -1
    for record in records:
        try:
            event = read_event(record.value)
            command = event.position()[1]
        except ValueError as error:
            raise HistoryError("events", record.offset, f"is not an event: {error}") from None
        if command < last:
            raise HistoryError(
                "events", record.offset, f"is of command {command}, but follows the events of command {last}"
            )
        last = command
        yield OwnerRecord(command, record, event)


def join_history(
    commands: Iterable[Record], outcomes: Lookahead[OutcomeEnvelope], events: Lookahead[EventEnvelope]
) -> Iterator[DecidedCommand]:
    """Yield the decided commands with their outcomes and events; stop before the first undecided command.

    Raises `HistoryError` for a command without an outcome, or an outcome without a command.
    """
    for record in commands:
        if outcomes.command is None:
            return
        outcomes_of_command = list(outcomes.take_before(record.offset + 1))
        if not outcomes_of_command:
            raise HistoryError("commands", record.offset, "has no outcome, though later ones have")
        outcome = outcomes_of_command[0]
        if outcome.command != record.offset:
            raise HistoryError(
                "outcomes", outcome.record.offset, f"is of command {outcome.command}, which does not exist"
            )
        events_of_command = list(events.take_before(record.offset + 1))
        yield DecidedCommand(record, outcome.message, outcome.record.timestamp, events_of_command)
