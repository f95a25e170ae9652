"""The checkpoint from which `verify --incremental` continues, and the view of an index that belongs to a checkpoint."""

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
    """A checkpoint from which the next verification continues. Index entries, versions and ids are in LMDB files.

    The index has the entries of commands from `verified_until` on, and the entries of earlier outcomes while a
    duplicate may point to them.
    """

    verified_until: int  # all commands before this offset are verified
    read_until: dict[LogName, int]  # topic → end of the records that were read
    report: Report  # report of all commands before `verified_until`
    last_commands: dict[LogName, int]  # topic → command offset of the last record that was read
    topic_recreated: dict[LogName, bool]  # as in `EarlierVerification`
    #: (offset, events) of a command that was not certainly decided, so that it may get more events.
    open_events: tuple[int, EventsEntry] | None
    open_deferrals: dict[CommandPosition, OpenDeferral]  # position of a deferred command → its state
    #: Topic → the first command whose record was not deleted before a verification read it.
    first_known: dict[LogName, int]
    events_complete: bool  # True if no event was deleted before a verification read it
    loss: Loss | None  # the accepted loss that was known
    oldest_original: int  # ms since 1970: no duplicate can point to an earlier outcome
    last_event: Evidence | None = None  # evidence of the last event that was read
    last_outcome: Evidence | None = None  # evidence of the last outcome that was read


class BoundedIndex:
    """An `Index` of the commands from the offset `floor` on. `find_entry` also finds the earlier outcomes that the
    checkpoint still has.
    """

    def __init__(self, index: Index, floor: int) -> None:
        self.first_known = 0  # the first command whose outcome was not deleted
        self._index = index
        self._floor = floor

    def add_entry(self, command_offset: int, entry: bytes) -> bytes | None:
        """Add an entry; raise `CheckpointUnusableError` if its command is already verified."""
        self._require_unverified(command_offset, "has a record that was written after its verification")
        return self._index.add_entry(command_offset, entry)

    def find_entry(self, command_offset: int) -> bytes | None:
        """Return the entry of a command; raise `CheckpointUnusableError` if the entry may have been dropped."""
        entry = self._index.find_entry(command_offset)
        if entry is None and command_offset >= self.first_known:
            self._require_unverified(
                command_offset, "is the original of a duplicate, and its index entry was dropped"
            )
        return entry

    def first_command(self) -> int | None:
        """Return the lowest command offset from `floor` on, or None."""
        return next((command for command, _ in self.entries()), None)

    def last_command(self) -> int | None:
        """Return the highest command offset, or None."""
        return self._index.last_command()

    def delete_from(self, command_offset: int) -> int:
        """Delete the entries from a command on; raise `CheckpointUnusableError` if the command is already verified."""
        self._require_unverified(command_offset, "is the first of a recreated topic")
        return self._index.delete_from(command_offset)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield the entries of the commands from `floor` on."""
        return (item for item in self._index.entries() if item[0] >= self._floor)

    def _require_unverified(self, command_offset: int, problem: str) -> None:
        if command_offset < self._floor:
            raise CheckpointUnusableError(f"command {command_offset} {problem}")


def check_continuation(
    checkpoint: VerificationCheckpoint, starts: Mapping[LogName, int], loss: Loss | None
) -> None:
    """Raise `CheckpointUnusableError` if events were deleted before a verification read them, or if an operator has
    accepted a loss since the checkpoint. `starts`: start offset of each log.
    """
    if starts["events"] > checkpoint.read_until["events"]:
        raise CheckpointUnusableError("events were deleted that no verify has read")
    if loss != checkpoint.loss:
        raise CheckpointUnusableError("an operator has accepted a loss since")
