"""The key space for a reader that follows the events of an aggregate, while partitions may split."""

import time
from collections.abc import Callable, Mapping
from functools import cache

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace, requested_key_space


class FollowedKeySpace:
    """The current key space, which is read again while a partition waits for its parent's split.

    Projections, process managers and the gateway use it. They store their positions in different places, so the
    positions are a parameter of `is_ready`.
    """

    def __init__(self, read: Callable[[], KeySpace], interval: float = 0.0) -> None:
        """`interval`: minimum seconds between two reads by `is_ready`."""
        self._read, self._interval = read, interval
        self._current: KeySpace | None = None
        self._read_at = 0.0

    @property
    def current(self) -> KeySpace:
        """The key space as last read; the first access reads it. Raises the errors of the read."""
        return self._current or self.refresh()

    def refresh(self) -> KeySpace:
        """Read and return the key space. A broker that has just restarted may not know the lineage topic yet. So a key
        space without repartitionings never replaces a key space with repartitionings.
        """
        key_space, self._read_at = self._read(), time.monotonic()
        if self._current is None or key_space.was_repartitioned or not self._current.was_repartitioned:
            self._current = key_space
        return self._current

    def is_ready(self, partition: int, positions: Callable[[], Mapping[int, int]]) -> bool:
        """Return True if a reader may begin to read the events of a partition (`KeySpace.is_ready`). `positions`
        returns the positions of the reader; it is called for child partitions only.

        While the parent of the partition has not split, read the key space again.
        """
        key_space = self.current
        if key_space.is_pending(partition) and time.monotonic() - self._read_at >= self._interval:
            key_space = self.refresh()
        return key_space.parent(partition) is None or key_space.is_ready(partition, positions())


def key_space_at_events(
    connection: Cluster,
    topics: Topics,
    partitioner: Partitioner,
    count: int,
    open_log: Callable[[int], PartitionLog],
) -> Callable[[], KeySpace]:
    """Return a function that reads the key space for a reader whose position is always directly after an event
    (`KeySpace.with_event_ends`).

    `count`: the number of partitions if no repartitioning was requested. `open_log` returns the logs of a partition.
    """

    @cache
    def end_before(partition: int, offset: int) -> int:
        last_event = open_log(partition).last_record("events", 0, offset)
        return 0 if last_event is None else last_event.offset + 1

    def read() -> KeySpace:
        key_space = requested_key_space(connection, topics, partitioner, count, REQUEST_TIMEOUT)
        return key_space.with_event_ends(end_before)

    return read
