"""Histories that are verified in pieces: each verify continues from the checkpoint of the previous verify on disk."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.core.fold import decode_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import LogName, Report
from cqrs_cli.proof.partition import PartitionVerification, Scratch
from cqrs_cli.proof.scope import Loss, Scope
from cqrs_cli.proof.verification_checkpoint import CheckpointUnusableError
from cqrs_cli.scans.verify.checkpoint_files import create_checkpoint_folder, load_checkpoint, write_checkpoint
from cqrs_cli.state.entry_index import EntryIndex
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.store import Store
from tests.proof.history import AGGREGATE, PARTITION, TOPIC, WINDOW, History, partition_of
from tests.proof.violations import command_of_dead_letter, command_of_event, command_of_outcome

#: A folder in memory, where a sync costs nothing, if it exists.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

LOGS: tuple[LogName, ...] = ("outcomes", "events", "dead-letters")


@dataclass
class VerifyRange:
    """What one verify reads: the committed offset before and after its reading, and `[start, end)` of each log."""

    before: int | None
    after: int | None
    ends: Mapping[LogName, int]
    starts: Mapping[LogName, int] = field(default_factory=dict)
    loss: Loss | None = None


class IncrementalVerifier:
    """Successive verifies of one history, each of which continues from the checkpoint of the previous verify."""

    def __init__(self, history: History, folder: Path) -> None:
        self.restart_reasons: list[str] = []  # the reasons why a verify started from the beginning again
        self._history = history
        self._folder = folder
        self._count = 0

    def verify(self, verify_range: VerifyRange) -> Report:
        before = self._folder / str(self._count) if self._count else None
        self._count += 1
        after = self._folder / str(self._count)
        history = self._history
        scope = Scope(
            *(
                "tally",
                TOPIC,
                PARTITION,
                dict.fromkeys(LOGS, 0) | dict(verify_range.starts),
                WINDOW,
                partition_of,
            ),
            loss=verify_range.loss,
            command_at=history.command_at,
            decode_event=partial(decode_event, AGGREGATE),
        )
        topics = Topics(history.commands, history.outcomes, history.events, history.letters)
        try:
            return verify_piece(scope, topics, verify_range, before, after)
        except CheckpointUnusableError as error:
            self.restart_reasons.append(str(error))
            return verify_piece(scope, topics, verify_range, None, after)


class Topics(NamedTuple):
    """All records of a partition. `deferred` is None while an owner is active."""

    commands: Sequence[Record]
    outcomes: Sequence[Record]
    events: Sequence[Record]
    letters: Sequence[Record]
    deferred: Sequence[Record] | None = None


def verify_piece(
    scope: Scope,
    topics: Topics,
    verify_range: VerifyRange,
    before: Path | None,
    after: Path,
    check_more: Callable[[PartitionVerification, Store], object] = lambda *_: None,
) -> Report:
    """Run one verify, which continues from the folder `before` and writes the folder `after`."""
    checkpoint = None if before is None else load_checkpoint(before)
    with ExitStack() as stack:
        folders = create_checkpoint_folder(after, before)
        indexes = [stack.enter_context(closing(EntryIndex(path))) for path in folders.indexes]
        store = LmdbStore(folders.store, scope.shortest_window, map_size=4 << 20)
        stack.callback(store.close_without_sync)
        scratch = Scratch(indexes[0], indexes[1], indexes[2], store, flush_every=3)
        verification = PartitionVerification(scope, scratch, checkpoint)
        steps = (verification.outcomes.read, verification.events.read, verification.dead_letters.read)
        logs = (topics.outcomes, topics.events, topics.letters)
        for kind, step, records in zip(LOGS, steps, logs, strict=True):
            first = max(scope.starts[kind], 0 if checkpoint is None else checkpoint.read_until[kind])
            step(record for record in records if first <= record.offset < verify_range.ends[kind])
        verification.deferred.read(topics.deferred or ())
        decided = verification.find_decided_range(
            verify_range.before, verify_range.after, start := verify_range.starts.get("commands", 0)
        )
        first = max(start, 0 if checkpoint is None else checkpoint.verified_until)
        end = verification.commands_end(decided)
        verification.check_commands(
            (command for command in topics.commands if first <= command.offset < end),
            decided,
            verify_range.ends,
        )
        if topics.deferred is not None:
            verification.check_deferred_topic(
                command for command in topics.commands if command.offset >= decided.decided_lower
            )
        assert verification.new_checkpoint is not None
        check_more(verification, store)
        store.close()
        write_checkpoint(after, verification.new_checkpoint, indexes)
        return verification.report()


_COMMAND_OF: dict[LogName, Callable[[Record], int]] = {
    "outcomes": command_of_outcome,
    "events": command_of_event,
    "dead-letters": command_of_dead_letter,
}


def verify_ranges(
    history: History, cuts: Sequence[int], ahead: Sequence[int] = (0, 0, 0, 0)
) -> list[VerifyRange]:
    """Return the ranges of several verifies of a correct history. The last verify reads all of it.

    Each earlier verify runs when the commands up to a cut are decided, while an owner is active. `ahead[0]` is the
    number of commands that the owner decides during the verify. The other numbers say, for each log of `LOGS`, how many
    of these commands the log has when the verify reads it.
    """
    offsets = [record.offset for record in history.commands]
    offsets += range(offsets[-1] + 1, offsets[-1] + 1 + sum(ahead) + 1)
    ranges = []
    for cut in sorted(cuts):
        ends = {
            kind: _end(history, kind, offsets[cut + count])
            for kind, count in zip(LOGS, ahead[1:], strict=True)
        }
        committed = offsets[min(len(history.commands), cut + max(ahead))]
        ranges.append(VerifyRange(offsets[cut], committed, ends))
    return [*ranges, whole_range(history)]


def _end(history: History, kind: LogName, command_offset: int) -> int:
    log = {"outcomes": history.outcomes, "events": history.events}.get(kind, history.letters)
    later_offsets = [record.offset for record in log if _COMMAND_OF[kind](record) >= command_offset]
    return later_offsets[0] if later_offsets else log[-1].offset + 1 if log else 0


def whole_range(history: History) -> VerifyRange:
    return VerifyRange(history.committed, history.committed, dict.fromkeys(LOGS, 10**6))
