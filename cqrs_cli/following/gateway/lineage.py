"""The partition history of an aggregate as the gateway follows it: the order in which partitions may be read."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.lineage_log import read_lineage
from cqrs_cli.keyspace.records import Split


class FollowedLineage:
    """The partition history of the events that a gateway follows.

    The follower's thread refreshes the history (`refresh`). Streams use the last refreshed history, because a stream
    must not wait for a broker.
    """

    def __init__(
        self, connection: Connection, topics: Topics, open_log: Callable[[int], PartitionLog]
    ) -> None:
        self._connection, self._topics, self._open_log = connection, topics, open_log
        self._first_count = 0
        # Each split offset is directly after an event, like the positions of a replica.
        self._lineage: PartitionLineage | None = None
        self._last_event_ends: dict[Split, int] = {}  # the offset after the last event before the split

    def refresh(self, count: int) -> PartitionLineage:
        """Refresh and return the partition history of an aggregate with `count` partitions now.

        Without a history log, the first `count` that this object has seen remains valid.
        """
        self._first_count = self._first_count or count
        if self._lineage is None and not readers.exists(self._connection, self._topics.lineage):
            return PartitionLineage((self._first_count,))
        lineage = read_lineage(self._connection, self._topics, count)
        for split in lineage.splits:
            if split not in self._last_event_ends:  # the owner's offset may be after transaction markers
                last = self._open_log(split.partition).last_record("events", 0, split.events)
                self._last_event_ends[split] = 0 if last is None else last.offset + 1
        splits = tuple(replace(split, events=self._last_event_ends[split]) for split in lineage.splits)
        self._lineage = PartitionLineage(lineage.counts, splits, lineage.activated)
        return lineage

    def parent(self, partition: int) -> int | None:
        """Return the partition that had its keys before a repartitioning; None for a partition without a parent."""
        return None if self._lineage is None else self._lineage.parent(partition)

    def may_begin(self, partition: int, positions: Mapping[int, int]) -> bool:
        """Return True if a reader with these positions may read the partition.

        All earlier events of the partition's keys are before the positions in the parent partitions.
        """
        return self._lineage is None or self._lineage.is_ready(partition, positions)
