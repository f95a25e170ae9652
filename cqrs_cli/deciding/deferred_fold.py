"""Bringing the deferred commands of a shard up to the log: from their own topic, and from the outcomes.

The topic is compacted: where a shard is old, the tombstone of an entry may be gone. So the final outcome of a command
ends its entry, too. A rule of order holds for every shard: it has folded its deferred topic at least as far as the
outcomes.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import (
    LAST_MOMENT,
    Deferral,
    DeferredView,
    key_of_place,
    read_deferral,
    read_deferral_key,
)
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.state.errors import REBUILD, CorruptError
from cqrs_cli.state.store import Positions


class FoldingCache(Protocol):
    """The state cache, as recovery folds into it."""

    @property
    def positions(self) -> Positions:
        """The place where reading continues."""

    @property
    def has_deferred(self) -> bool:
        """True if there is an entry."""

    def reading(self) -> AbstractContextManager[None]:
        """Inside the block `deferred` may be asked."""

    def deferred(self) -> DeferredView:
        """The deferred commands."""

    def fold(self, end: Positions, *, deferred: Mapping[str, Deferral | None]) -> None:
        """Apply what was read back from the log."""


def fold_deferred(log: PartitionLog, cache: FoldingCache, bounds: tuple[int, int]) -> None:
    """Fold the entries of the deferred topic that has these bounds."""
    at, (start, end) = cache.positions.deferred, bounds
    if at > end:
        raise ContradictionError(
            f"{log.place('deferred')} ends at {end}, before the {at} that was already folded",
            "the topic was truncated or replaced: restore it before anything is decided",
        )
    for records in log.read("deferred", max(at, start), end):
        changes = dict(entry_change(log, record) for record in records)
        cache.fold(cache.positions._replace(deferred=records[-1].offset + 1), deferred=changes)
    if cache.positions.deferred < end:
        cache.fold(cache.positions._replace(deferred=end), deferred={})


def entry_change(log: PartitionLog, record: Record) -> tuple[str, Deferral | None]:
    """The key of an entry and the entry as a record says it is, None for its end; raises `ContradictionError`."""
    try:
        if record.value is None:
            return str(read_deferral_key(record.key)), None
        entry = read_deferral(record.key, record.value)
    except ValueError as error:
        raise ContradictionError(
            f"{log.place('deferred')} offset {record.offset} is not a deferred command: {error}",
            "only cqrs may write there",
        ) from error
    return entry.key, entry


def closed(
    cache: FoldingCache, topic_id: str, outcomes: Iterable[tuple[Record, OutcomeEnvelope]]
) -> dict[str, None]:
    """The entries that these outcomes end. Ask inside the block in which the cache may be read.

    An entry that is younger than the outcome, or of another command, is not meant: offsets begin again in a topic that
    was made again.
    """
    ended: dict[str, None] = {}
    if not cache.has_deferred:
        return ended
    for record, outcome in outcomes:
        place, status = outcome.data.deferredfrom, outcome.data.status
        if not isinstance(place, str) or status == "deferred":
            continue
        entry = cache.deferred().find(str(key_of_place(place, topic_id, outcome.data.partition)))
        if entry is None or record.timestamp < entry.timestamp:
            continue
        if outcome.causationid is None or (outcome.subject, outcome.causationid) == (entry.subject, entry.id):
            ended[entry.key] = None
    return ended


def entries_of(cache: FoldingCache) -> Iterator[Deferral]:
    """Every command that waits. Ask inside the block in which the cache may be read."""
    view = cache.deferred()
    yield from view.said()
    yield from view.due(LAST_MOMENT, 2**31)


def check_outcomes_kept(log: PartitionLog, cache: FoldingCache, start: int) -> None:
    """Refuse a shard with deferred commands that has not folded the outcomes which retention has deleted: they may have
    ended some. Raises `CorruptError`: it is set aside, and made from the log.

    One that has folded no outcome at all forgets them, and folds them again: its owner was interrupted before that, or
    they are inherited and its partition had not begun.
    """
    if cache.positions.outcomes == 0 and cache.has_deferred:
        with cache.reading():
            forgotten = {entry.key: None for entry in entries_of(cache)}
        cache.fold(cache.positions._replace(deferred=0), deferred=forgotten)
    if 0 < cache.positions.outcomes < start and cache.has_deferred:
        raise CorruptError(
            f"the shard of {log.place('commands')} has deferred commands, and outcomes up to {start} are deleted",
            REBUILD,
        )


def park_again(cache: FoldingCache, topic_id: str, at: int) -> None:
    """Park again, due at once, what stands again where nobody will decide it: before the position, or in a topic that
    is no more. The log is folded: whatever was decided has ended. Only an accepted loss leads here.
    """
    with cache.reading():
        lost = [
            one
            for one in cache.deferred().said()
            if one.said_topic != topic_id or (one.said is not None and one.said < at)
        ]
    if lost:
        parked = {one.key: replace(one, said=None, said_topic="", due=0) for one in lost}
        cache.fold(cache.positions, deferred=parked)
