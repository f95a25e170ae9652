"""Joins commands, outcomes and events for `cqrs whatif`, in the order of the commands.

These logs are read in parallel, so only the records of one command are in memory.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

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


class OwnerRecord(Struct, Generic[_T], frozen=True, gc=False):
    """A decoded outcome or event."""

    command_offset: int  # offset of the command that led to this record
    record: Record
    message: _T  # the decoded record


class Lookahead(Generic[_T]):
    """Reads outcomes or events in the order of their commands. `next_command` peeks at the next record."""

    def __init__(self, records: Iterator[OwnerRecord[_T]]) -> None:
        self._records = records
        self._next = next(records, None)

    @property
    def next_command(self) -> int | None:
        """The command offset of the next record; None at the end."""
        return None if self._next is None else self._next.command_offset

    def take_before(self, command_offset: int) -> Iterator[OwnerRecord[_T]]:
        """Yield the next records of commands before `command_offset`."""
        while self._next is not None and self._next.command_offset < command_offset:
            record, self._next = self._next, next(self._records, None)
            yield record

    def take_through(self, command_offset: int) -> list[OwnerRecord[_T]]:
        """Return the next records of commands up to and including `command_offset`."""
        record, records = self._next, []
        while record is not None and record.command_offset <= command_offset:
            records.append(record)
            record = next(self._records, None)
        self._next = record
        return records


class DecidedCommand(Struct, frozen=True, gc=False):
    """A command with its outcome and events in the log."""

    record: Record
    outcome: OutcomeEnvelope
    outcome_value: bytes  # the bytes of the outcome
    events: list[OwnerRecord[EventEnvelope]]


def decoded_outcomes(records: Iterable[Record]) -> Iterator[OwnerRecord[OutcomeEnvelope]]:
    """Yield decoded outcomes in the order of the log.

    Raises `HistoryError` for a record that is not an outcome, or that is not in the order of the commands.
    """
    last_offset = -1
    for record in records:
        try:
            outcome = read_outcome(record.value)
        except ValueError as error:
            raise HistoryError("outcomes", record.offset, f"is not an outcome: {error}") from None
        command_offset = outcome.data.offset
        if command_offset <= last_offset:
            raise HistoryError(
                "outcomes",
                record.offset,
                f"is of command {command_offset}, but follows the outcome of command {last_offset}",
            )
        last_offset = command_offset
        yield OwnerRecord(command_offset, record, outcome)


def decoded_events(records: Iterable[Record]) -> Iterator[OwnerRecord[EventEnvelope]]:
    """Yield decoded events in the order of the log.

    Raises `HistoryError` for a record that is not an event, or that is not in the order of the commands.
    """
    last_offset = -1
    for record in records:
        try:
            event = read_event(record.value)
            command_offset = event.position()[1]
        except ValueError as error:
            raise HistoryError("events", record.offset, f"is not an event: {error}") from None
        if command_offset < last_offset:
            raise HistoryError(
                "events",
                record.offset,
                f"is of command {command_offset}, but follows the events of command {last_offset}",
            )
        last_offset = command_offset
        yield OwnerRecord(command_offset, record, event)


def join_history(
    commands: Iterable[Record], outcomes: Lookahead[OutcomeEnvelope], events: Lookahead[EventEnvelope]
) -> Iterator[DecidedCommand]:
    """Yield the decided commands with their outcomes and events; stop before the first undecided command.

    Raises `HistoryError` for a command without an outcome, or an outcome without a command.
    """
    for record in commands:
        if outcomes.next_command is None:
            return
        outcomes_of_command = outcomes.take_through(record.offset)
        if not outcomes_of_command:
            raise HistoryError("commands", record.offset, "has no outcome, though later ones have")
        outcome = outcomes_of_command[0]
        if outcome.command_offset != record.offset:
            raise HistoryError(
                "outcomes",
                outcome.record.offset,
                f"is of command {outcome.command_offset}, which does not exist",
            )
        yield DecidedCommand(
            record, outcome.message, outcome.record.value or b"", events.take_through(record.offset)
        )
