"""The states of one partition, folded from its events into a shard that belongs to the gateway."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.history import contradiction
from cqrs_cli.deciding.packing import unpack
from cqrs_cli.deciding.recover import fold_records
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import Shard, open_shard

#: Bytes of decoded states that each partition caches while it folds.
_CACHE_BYTES = 8 * 1024 * 1024


class Replica:
    """A read replica of one partition. The follower's thread folds records; any thread may read.

    Raises the errors of `open_shard`, and `ContradictionError` if the topic no longer holds the next events.
    """

    def __init__(
        self,
        log: PartitionLog,
        described: AggregateTopics,
        aggregate: Aggregate,
        folder: Path,
        bounds: tuple[int, int],
        note: Callable[[str], None],
        count: int,
        parent: "Replica | None" = None,
    ) -> None:
        """`folder` holds the gateway's shards of this aggregate; `bounds` is (start, end) of the events partition.

        `count`: the number of partitions when this partition was added. `parent`: the replica of the partition that had
        its keys before; it holds all events of these keys up to the split.
        """
        self._log, self._aggregate, self._parent = log, aggregate, parent
        self._lock = threading.Lock()  # LMDB's map must not grow during a read
        identity = Identity(
            cluster_id=described.cluster_id,
            topics={"events": described.ids["events"]},
            partition=log.partition,
            partitions=count,
            schema=aggregate.schema_digest,
            revision=aggregate.decider.revision,
            window_ms=1,  # a replica stores no command ids
        )
        self._store = self._open(folder / str(log.partition), identity, note)
        try:
            self._cache = StateCache(aggregate, self._store, "", _CACHE_BYTES)
            self._check(bounds)
            self.inherited = 0 if parent is None else sum(parent.has(name) for name, _ in self._store.items())
        except BaseException:
            self._store.close()
            raise

    def _open(self, path: Path, identity: Identity, note: Callable[[str], None]) -> Shard:
        """Open the shard, or a new shard if the log is not the log that was folded."""
        shard = open_shard(path, identity, note).store
        if why := contradiction(self._log, shard.positions().last_event, None):
            note(f"the state in {path} is of a history that was lost: {why}")
            shard.condemn()
            shard = open_shard(path, identity, note).store
        return shard

    def _check(self, bounds: tuple[int, int]) -> None:
        start, end = bounds
        place = self._log.log_name("events")
        if self.position > end:
            raise ContradictionError(
                f"{place} ends at {end}, before the {self.position} that was already folded",
                "the topic was truncated or replaced: restore it",
            )
        if self.position < start:
            raise ContradictionError(
                f"{place} begins at {start}: events from {self.position} on were deleted",
                "restore the topic, and set its retention.ms and retention.bytes to -1",
            )

    @property
    def position(self) -> int:
        """The offset of the next event."""
        return self._cache.positions.folded_events

    def take(self, records: list[Record], stored: Sequence[Record]) -> None:
        """Fold the next records; `stored` contains the same records as they are in the log.

        Raises `ContradictionError` with the first record that does not fit, and `NotOwnerError` if another process has
        folded into this shard.
        """
        if self._parent is not None:
            self._inherit(self._parent, records)
        done = 0
        while done < len(records):
            with self._lock:
                with self._cache.reading():
                    states, done = fold_records(self._log, self._aggregate, self._cache, records, done)
                after = self._cache.positions.after_event(stored, records[done - 1].offset)
                self._cache.fold(after, states)

    def _inherit(self, parent: "Replica", records: list[Record]) -> None:
        """Copy the states of aggregates that occur here for the first time from the parent, which stays unchanged."""
        names = {(record.key or b"").decode(errors="replace") for record in records}
        with self._lock, self._store.view() as view:
            names = {name for name in names if view.saved(name) is None}
        before = {name: saved for name in names if (saved := parent.saved(name)) is not None}
        if before:
            states = {name: unpack(self._aggregate, name, saved) for name, saved in before.items()}
            with self._lock:
                self._cache.fold(self._cache.positions, states)
            self.inherited += len(states)

    def saved(self, aggregate_id: str) -> StoredState | None:
        """Return the current state of an aggregate; None if it does not exist.

        Without an event since the split, the state comes from the parent's replica.
        """
        with self._lock, self._store.view() as view:
            found = view.saved(aggregate_id)
        return self._parent.saved(aggregate_id) if found is None and self._parent is not None else found

    def has(self, aggregate_id: str) -> bool:
        """Return True if this replica or its parent has the aggregate."""
        return self.saved(aggregate_id) is not None

    def page(self, prefix: str, after: str, limit: int) -> list[tuple[str, StoredState]]:
        """Return up to `limit` aggregates whose ids start with `prefix` and follow `after`, ordered by id."""
        with self._lock:
            return self._store.page(prefix, after, limit)

    def count(self) -> int:
        """Return the number of aggregates, without inherited aggregates, which the parent counts."""
        with self._lock:
            return self._store.count() - self.inherited

    def close(self) -> None:
        """Close the shard."""
        with self._lock:
            self._store.close()
