"""The checkpoint from which `verify --incremental` continues, and an index without the entries that it has dropped."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from cqrs_cli.proof.findings import LogName, Report
from cqrs_cli.proof.index_entries import EventsEntry, Index
from cqrs_cli.proof.positions import CommandPosition, OpenDeferral
from cqrs_cli.proof.scope import Loss
from cqrs_cli.state.evidence import Evidence


class CheckpointUnusableError(Exception):
    """The logs contradict the checkpoint, or need index entries that the checkpoint no longer holds.

    The partition must be verified from its start.
    """


#: Field → its name in stored checkpoints, for the fields whose names differ.
_STORED_NAMES = {
    "verified_until": "commands",
    "read_until": "read",
    "last_commands": "last",
    "topic_recreated": "began_again",
    "open_deferrals": "deferred",
    "first_known": "known_from",
    "events_complete": "has_begin",
    "oldest_original": "oldest",
}


class VerificationCheckpoint(Struct, frozen=True, rename=_STORED_NAMES):
    """A checkpoint from which the next verification continues. Index entries, versions and ids are on disk.

    Commands before `verified_until` are verified. Records before `read_until` have index entries. Entries of later
    commands are stored, and entries of earlier outcomes while a duplicate may point to them.
    """

    verified_until: int
    read_until: dict[LogName, int]
    report: Report  # of all commands before `verified_until`
    last_commands: dict[LogName, int]  # topic → offset of the command of the last record read
    topic_recreated: dict[LogName, bool]
    open_events: tuple[int, EventsEntry] | None  # of a later command, which may get more events
    open_deferrals: dict[CommandPosition, OpenDeferral]  # by the position of the deferred command
    #: Topic → the first command whose record was not deleted before a verification read it.
    first_known: dict[LogName, int]
    events_complete: bool  # no event was deleted before a verification read it
    loss: Loss | None
    oldest_original: int  # ms: no duplicate can point to outcomes before this time
    last_event: Evidence | None = None  # of the last event and outcome that were read
    last_outcome: Evidence | None = None


class BoundedIndex:
    """An `Index` of the commands from `floor` on, and of the earlier outcomes that the checkpoint still holds."""

    def __init__(self, index: Index, floor: int) -> None:
        self.first_known = 0  # the first command that may have records in the logs
        self._index = index
        self._floor = floor

    def add_entry(self, command_offset: int, entry: bytes) -> bytes | None:
        """Add an entry; raise `CheckpointUnusableError` if its command is already verified."""
        self._require_unverified(command_offset, "has a record that was written after its verification")
        return self._index.add_entry(command_offset, entry)

    def find_entry(self, command_offset: int) -> bytes | None:
        """Return the entry of a command; raise `CheckpointUnusableError` if the checkpoint may have dropped it."""
        entry = self._index.find_entry(command_offset)
        if entry is None and command_offset >= self.first_known:
            self._require_unverified(
                command_offset, "is the original of a duplicate, and its index entry was dropped"
            )
        return entry

    def first_command(self) -> int | None:
        """Return the lowest command from the floor on, or None."""
        return next((command for command, _ in self.entries()), None)

    def last_command(self) -> int | None:
        """Return the highest command, or None."""
        return self._index.last_command()

    def delete_from(self, command_offset: int) -> int:
        """Delete the entries from a command on; raise `CheckpointUnusableError` if the command is already verified."""
        self._require_unverified(command_offset, "is the first of a recreated topic")
        return self._index.delete_from(command_offset)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield the entries from the floor on."""
        return (item for item in self._index.entries() if item[0] >= self._floor)

    def _require_unverified(self, command_offset: int, problem: str) -> None:
        if command_offset < self._floor:
            raise CheckpointUnusableError(f"command {command_offset} {problem}")


def check_continuation(
    checkpoint: VerificationCheckpoint, starts: Mapping[LogName, int], loss: Loss | None
) -> None:
    """Raise `CheckpointUnusableError` if unread events were deleted, or an operator has accepted a loss since then."""
    if starts["events"] > checkpoint.read_until["events"]:
        raise CheckpointUnusableError("events were deleted that no verify has read")
    if loss != checkpoint.loss:
        raise CheckpointUnusableError("an operator has accepted a loss since")
