"""Recovers a shard's deferred commands from the deferred topic and the outcomes.

The topic is compacted, so the tombstone of an entry may be gone if the shard is old. The final outcome of a command
therefore ends its entry, too. The deferred topic is always folded before the outcomes, so a shard that contains an
outcome has also read the records of the command's entry.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import (
    MAX_TIMESTAMP,
    Deferral,
    DeferredView,
    entry_key_of,
    read_deferral,
    read_deferral_key,
)
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.state.errors import REBUILD_HINT, CorruptError
from cqrs_cli.state.store import Positions


class FoldingCache(Protocol):
    """The part of the state cache that recovery uses."""

    @property
    def positions(self) -> Positions:
        """The positions at which reading continues."""

    @property
    def has_deferred(self) -> bool:
        """True if there is a deferred command."""

    def reading(self) -> AbstractContextManager[None]:
        """Allow calls of `deferred` inside the block."""

    def deferred(self) -> DeferredView:
        """Return the deferred commands."""

    def fold(self, end: Positions, *, deferred: Mapping[str, Deferral | None]) -> None:
        """Apply records that were read from the log."""


def fold_deferred(log: PartitionLog, cache: FoldingCache, bounds: tuple[int, int]) -> None:
    """Fold the deferred topic; `bounds` are its start and end. Raises `ContradictionError` if it was truncated."""
    next_offset, (start, end) = cache.positions.deferred, bounds
    if next_offset > end:
        raise ContradictionError(
            f"{log.log_name('deferred')} ends at {end}, before the {next_offset} that was already folded",
            "the topic was truncated or replaced: restore it before anything is decided",
        )
    for records in log.read("deferred", max(next_offset, start), end):
        changes = dict(entry_change(log, record) for record in records)
        cache.fold(cache.positions._replace(deferred=records[-1].offset + 1), deferred=changes)
    if cache.positions.deferred < end:
        cache.fold(cache.positions._replace(deferred=end), deferred={})


def entry_change(log: PartitionLog, record: Record) -> tuple[str, Deferral | None]:
    """Return (key of the entry, entry) of a record in the deferred topic; the entry is None for a tombstone. Raises
    `ContradictionError` if the record is neither an entry nor a tombstone.
    """
    try:
        if record.value is None:
            return str(read_deferral_key(record.key)), None
        entry = read_deferral(record.key, record.value)
    except ValueError as error:
        raise ContradictionError(
            f"{log.log_name('deferred')} offset {record.offset} is not a deferred command: {error}",
            "only cqrs may write to this topic: check its ACLs",
        ) from error
    return entry.key, entry


def entries_ended_by(
    cache: FoldingCache, topic_id: str, outcomes: Iterable[tuple[Record, OutcomeEnvelope]]
) -> dict[str, None]:
    """Return the keys of the entries that these outcomes end, each with the value None. Call this function inside
    `cache.reading()`.

    An outcome refers to its deferred command by offset. After the commands topic was recreated, an old outcome may
    refer to an offset of the earlier topic. So the result omits an entry that is younger than the outcome, or belongs
    to another command.
    """
    ended_entries: dict[str, None] = {}
    if not cache.has_deferred:
        return ended_entries
    for record, outcome in outcomes:
        deferredfrom, status = outcome.data.deferredfrom, outcome.data.status
        if not isinstance(deferredfrom, str) or status == "deferred":
            continue
        entry = cache.deferred().find_entry(str(entry_key_of(deferredfrom, topic_id, outcome.data.partition)))
        if entry is None or record.timestamp < entry.timestamp:
            continue
        if outcome.causationid is None or (outcome.subject, outcome.causationid) == (entry.subject, entry.id):
            ended_entries[entry.key] = None
    return ended_entries


def deferred_entries(cache: FoldingCache) -> Iterator[Deferral]:
    """Yield every deferred command. Call it inside `cache.reading()`."""
    view = cache.deferred()
    yield from view.resubmitted_entries()
    yield from view.due_entries(MAX_TIMESTAMP, 2**31)


def has_resubmitted_since(log: PartitionLog, topic_id: str, offset: int) -> bool:
    """Return True if a visible entry names a command that was resubmitted at or after `offset` of the commands topic
    `topic_id`.
    """
    return any(
        entry is not None
        and entry.resubmitted_offset is not None
        and entry.resubmitted_topic_id == topic_id
        and entry.resubmitted_offset >= offset
        for records in log.read("deferred", *log.bounds("deferred"))
        for _, entry in (entry_change(log, record) for record in records)
    )


def has_resubmitted_visibly(log: PartitionLog, topic_id: str, record: Record) -> bool:
    """Return True if the entry in `record` names a resubmitted command that is visible in the commands topic
    `topic_id`.
    """
    _, entry = entry_change(log, record)
    if entry is None or entry.resubmitted_offset is None or entry.resubmitted_topic_id != topic_id:
        return False
    offset = entry.resubmitted_offset
    return log.first_record("commands", offset, offset + 1) is not None


def check_outcomes_kept(log: PartitionLog, cache: FoldingCache, start: int) -> None:
    """Raise `CorruptError` for a shard with deferred commands if retention has deleted outcomes that the shard has not
    folded: a deleted outcome may have ended an entry. The shard is then quarantined and rebuilt from the log. `start`:
    the log start of the outcomes.

    If a shard has entries but has folded no outcome, its entries are dropped, to be folded again. Either its owner was
    interrupted before the first outcome was folded, or the partition inherited the entries and was not activated yet.
    """
    if cache.positions.outcomes == 0 and cache.has_deferred:
        with cache.reading():
            dropped_entries = {entry.key: None for entry in deferred_entries(cache)}
        cache.fold(cache.positions._replace(deferred=0), deferred=dropped_entries)
    if 0 < cache.positions.outcomes < start and cache.has_deferred:
        raise CorruptError(
            f"the shard of {log.log_name('commands')} has deferred commands, and outcomes up to {start} are deleted",
            REBUILD_HINT,
        )


def defer_lost_again(cache: FoldingCache, topic_id: str, position: int) -> None:
    """Defer resubmitted commands again, due at once, if no owner will decide their records: the records are before the
    `position`, or in a topic that no longer exists. Only an accepted loss can leave such commands.

    Call this function after the log is folded, so that the outcome of every decided command has ended its entry.
    """
    with cache.reading():
        lost_entries = [
            entry
            for entry in cache.deferred().resubmitted_entries()
            if entry.resubmitted_topic_id != topic_id
            or (entry.resubmitted_offset is not None and entry.resubmitted_offset < position)
        ]
    if lost_entries:
        deferred_again = {
            entry.key: replace(entry, resubmitted_offset=None, resubmitted_topic_id="", due=0)
            for entry in lost_entries
        }
        cache.fold(cache.positions, deferred=deferred_again)
