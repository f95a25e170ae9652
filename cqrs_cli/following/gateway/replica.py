"""The states of one partition, folded from its events into a shard of the gateway's own."""

import threading
from collections.abc import Callable
from pathlib import Path

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.recover import fold_records
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import open_shard

#: Bytes of decoded states that folding keeps at hand in each partition.
_CACHE_BYTES = 8 * 1024 * 1024


class Replica:
    """One partition: its follower takes in records, any thread may look.

    Raises what `open_shard` raises, `ContradictionError` if the topic no longer holds the events that come next.
    """

    def __init__(
        self,
        log: PartitionLog,
        described: AggregateTopics,
        aggregate: Aggregate,
        folder: Path,
        bounds: tuple[int, int],
        note: Callable[[str], None],
    ) -> None:
        """`folder` has the shards of the gateway for this aggregate, `bounds` are those of the events."""
        self._log, self._aggregate = log, aggregate
        self._lock = threading.Lock()  # LMDB's map must not grow while somebody looks
        identity = Identity(
            cluster_id=described.cluster_id,
            topics={"events": described.ids["events"]},
            partition=log.partition,
            partitions=described.partitions,
            schema=aggregate.schema_digest,
            revision=aggregate.decider.revision,
            window_ms=1,  # it remembers no ids
        )
        self._store = open_shard(folder / str(log.partition), identity, note).store
        try:
            self._cache = StateCache(aggregate, self._store, "", _CACHE_BYTES)
            self._check(bounds)
        except BaseException:
            self._store.close()
            raise

    def _check(self, bounds: tuple[int, int]) -> None:
        start, end = bounds
        place = self._log.place("events")
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
        """The offset of the event that comes next."""
        return self._cache.positions.events

    def take(self, records: list[Record]) -> None:
        """Fold the records that come next; raises `ContradictionError` naming the one that cannot follow, and
        `NotOwnerError` if another process has folded them into the same shard.
        """
        done = 0
        while done < len(records):
            with self._lock:
                with self._cache.reading():
                    states, done = fold_records(self._log, self._aggregate, self._cache, records, done)
                after = self._cache.positions._replace(events=records[done - 1].offset + 1)
                self._cache.fold(after, states)

    def saved(self, aggregate_id: str) -> StoredState | None:
        """The aggregate as it is now, None if it does not exist."""
        with self._lock, self._store.view() as view:
            return view.saved(aggregate_id)

    def page(self, prefix: str, after: str, limit: int) -> list[tuple[str, StoredState]]:
        """As the store's: aggregates in the order of their ids."""
        with self._lock:
            return self._store.page(prefix, after, limit)

    def count(self) -> int:
        """The number of aggregates."""
        with self._lock:
            return self._store.count()

    def close(self) -> None:
        """Let go of the shard, for the next start."""
        with self._lock:
            self._store.close()
