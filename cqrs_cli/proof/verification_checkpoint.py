"""Incremental verification: the checkpoint of an earlier verification, and the limits of its stored index entries."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from cqrs_cli.proof.findings import LogName, Report
from cqrs_cli.proof.positions import OpenDeferral, ProvedPlace
from cqrs_cli.proof.scope import Loss
from cqrs_cli.proof.traces import EventsTrace, Index


class CheckpointUnusableError(Exception):
    """The logs contradict the checkpoint, or need index entries that the checkpoint no longer holds.

    The partition must be verified from its start.
    """


class VerificationCheckpoint(Struct, frozen=True):
    """A verification checkpoint, from which the next verification goes on. Index entries, versions and ids are on disk.

    Commands before `commands` are verified. Records before `read` have index entries. Entries of later commands are
    stored, and entries of earlier outcomes while a duplicate may point to them.
    """

    commands: int
    read: dict[LogName, int]
    report: Report  # of all commands before `commands`, from the start
    last: dict[LogName, int]  # by topic: the command of the last record read
    began_again: dict[LogName, bool]
    open_events: tuple[int, EventsTrace] | None  # a later command, which may have more events
    deferred: dict[ProvedPlace, OpenDeferral]  # the open deferred commands
    known_from: dict[LogName, int]  # by topic: the first command with records
    has_begin: bool  # the events were complete from the first event on
    loss: Loss | None
    oldest: int  # ms: no duplicate can point to outcomes before this time


class BoundedIndex:
    """An `Index` of the commands from `floor` on, and of the earlier outcomes that the checkpoint still holds."""

    def __init__(self, index: Index, floor: int) -> None:
        self.known_from = 0  # the first command that may have records in the logs
        self._index = index
        self._floor = floor

    def add(self, command: int, trace: bytes) -> bytes | None:
        """Add an entry; raise `CheckpointUnusableError` if its command is already verified."""
        self._check(command, "has a record that comes after its proof")
        return self._index.add(command, trace)

    def get(self, command: int) -> bytes | None:
        """Return the entry of a command; raise `CheckpointUnusableError` if the checkpoint may have dropped it."""
        found = self._index.get(command)
        if found is None and command >= self.known_from:
            self._check(command, "is pointed to, and its outcome was not kept")
        return found

    def first(self) -> int | None:
        """Return the lowest command from the floor on."""
        return next((command for command, _ in self.items()), None)

    def last(self) -> int | None:
        """Return the highest command."""
        return self._index.last()

    def cut(self, command: int) -> int:
        """Delete the entries from a command on; raise `CheckpointUnusableError` if the command is already verified."""
        self._check(command, "is where the commands began again")
        return self._index.cut(command)

    def items(self) -> Iterator[tuple[int, bytes]]:
        """Yield the entries from the floor on."""
        return (item for item in self._index.items() if item[0] >= self._floor)

    def _check(self, command: int, what: str) -> None:
        if command < self._floor:
            raise CheckpointUnusableError(f"command {command} {what}")


def check_beginning(
    carried: VerificationCheckpoint, starts: Mapping[LogName, int], loss: Loss | None
) -> None:
    """Raise `CheckpointUnusableError` if unread events were deleted, or an operator has accepted a loss since then."""
    if starts["events"] > carried.read["events"]:
        raise CheckpointUnusableError("events were deleted that no verify has read")
    if loss != carried.loss:
        raise CheckpointUnusableError("an operator has accepted a loss since")
