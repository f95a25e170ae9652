"""The states of one partition, folded from its events into a shard that belongs to the gateway."""

import threading
from collections.abc import Sequence
from pathlib import Path

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.history_check import history_mismatch
from cqrs_cli.deciding.packing import unpack
from cqrs_cli.deciding.recover import fold_records
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.observer import reached
from cqrs_cli.ownership.complete_events import check_starts
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
        aggregate_topics: AggregateTopics,
        aggregate: Aggregate,
        folder: Path,
        bounds: tuple[int, int],
        initial_count: int,
        parent: "Replica | None" = None,
    ) -> None:
        """`folder`: the folder of the gateway's shards of this aggregate. `bounds`: (start, end) of the events
        partition.

        `initial_count`: the number of partitions when this partition was added. `parent`: the replica of the parent
        partition, which has the events of this partition's keys before the split.
        """
        self._log, self._aggregate, self._parent = log, aggregate, parent
        self._lock = threading.Lock()  # LMDB's map must not grow during a read
        identity = Identity(
            cluster_id=aggregate_topics.cluster_id,
            topics={"events": aggregate_topics.ids["events"]},
            partition=log.partition,
            partitions=initial_count,
            schema=aggregate.schema_digest,
            revision=aggregate.decider.revision,
            window_ms=1,  # a replica stores no command ids
        )
        self._store = self._open_shard(folder / str(log.partition), identity)
        try:
            self._cache = StateCache(aggregate, self._store, "", _CACHE_BYTES)
            self._check_bounds(bounds)
            self.inherited_count = (
                0 if parent is None else sum(parent.has_aggregate(name) for name, _ in self._store.items())
            )
        except BaseException:
            self._store.close()
            raise

    def _open_shard(self, path: Path, identity: Identity) -> Shard:
        """Open the shard. If the log no longer has the last event that was folded into it, open a new shard instead."""
        shard = open_shard(path, identity).store
        if reason := history_mismatch(self._log, shard.positions().last_event, None):
            reached("message", text=f"the state in {path} is from a lost history: {reason}")
            shard.close_as_damaged()
            shard = open_shard(path, identity).store
        return shard

    def _check_bounds(self, bounds: tuple[int, int]) -> None:
        start, end = bounds
        log_name = self._log.log_name("events")
        if self.position > end:
            raise ContradictionError(
                f"{log_name} ends at {end}, but this gateway has folded up to {self.position}",
                "the topic was truncated or replaced: restore it",
            )
        check_starts(
            self._log.connection,
            self._log.topics,
            {self._log.partition: start},
            {self._log.partition: self.position},
        )

    @property
    def position(self) -> int:
        """The offset of the next event."""
        return self._cache.positions.folded_events

    def fold(self, records: list[Record], log_records: Sequence[Record]) -> None:
        """Fold the next records; `log_records` contains the same records before they were decoded.

        Raises `ContradictionError` with the first record that does not fit, and `NotOwnerError` if another process has
        folded into this shard.
        """
        if self._parent is not None:
            self._copy_from_parent(self._parent, records)
        index = 0
        while index < len(records):
            with self._lock:
                with self._cache.reading():
                    states, index = fold_records(self._log, self._aggregate, self._cache, records, index)
                positions = self._cache.positions.after_event(log_records, records[index - 1].offset)
                self._cache.fold(positions, states)

    def _copy_from_parent(self, parent: "Replica", records: list[Record]) -> None:
        """Copy states from the parent's replica, for the aggregates of these records that this shard lacks."""
        ids = {(record.key or b"").decode(errors="replace") for record in records}
        with self._lock, self._store.view() as view:
            new_ids = {id for id in ids if view.find_state(id) is None}
        inherited = {id: state for id in new_ids if (state := parent.state_of(id)) is not None}
        if inherited:
            states = {id: unpack(self._aggregate, id, state) for id, state in inherited.items()}
            with self._lock:
                self._cache.fold(self._cache.positions, states)
            self.inherited_count += len(states)

    def state_of(self, aggregate_id: str) -> StoredState | None:
        """Return the current state of an aggregate; None if it does not exist.

        If the aggregate has no event since the split, its state comes from the parent's replica.
        """
        with self._lock, self._store.view() as view:
            state = view.find_state(aggregate_id)
        return self._parent.state_of(aggregate_id) if state is None and self._parent is not None else state

    def has_aggregate(self, aggregate_id: str) -> bool:
        """Return True if this replica or its parent has the aggregate."""
        return self.state_of(aggregate_id) is not None

    def list_aggregates(self, prefix: str, after: str, limit: int) -> list[tuple[str, StoredState]]:
        """Return up to `limit` aggregates whose ids start with `prefix` and follow `after`, ordered by id."""
        with self._lock:
            return self._store.page(prefix, after, limit)

    def aggregate_count(self) -> int:
        """Return the number of aggregates. Aggregates that the parent's replica also has are counted there."""
        with self._lock:
            return self._store.count() - self.inherited_count

    def close(self) -> None:
        """Close the shard."""
        with self._lock:
            self._store.close()
