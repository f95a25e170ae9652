"""The key space of an aggregate as a reader of its events follows it: partitions split while it reads."""

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

    Used by projections, process managers and the gateway. Each of them stores its positions elsewhere, so they are a
    parameter of `is_ready`.
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
        """Read and return the key space. A broker that has just restarted may not know the history's topic yet, so a
        repartitioned key space stays repartitioned.
        """
        read, self._read_at = self._read(), time.monotonic()
        if self._current is None or read.was_repartitioned or not self._current.was_repartitioned:
            self._current = read
        return self._current

    def is_ready(self, partition: int, positions: Callable[[], Mapping[int, int]]) -> bool:
        """True if a reader may begin to read the events of a partition: see `KeySpace.is_ready`. `positions` returns
        the positions of the reader; it is called for target partitions only.

        Reads the key space again while the parent of the partition has not split.
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
    """Return a function that reads the key space for a reader whose positions are always directly after an event. So in
    this key space, the events of a split end after its last event, and not after transaction markers.

    `count`: the number of partitions if no repartitioning was requested. `open_log` returns the logs of a partition.
    """

    @cache
    def end_before(partition: int, offset: int) -> int:
        last = open_log(partition).last_record("events", 0, offset)
        return 0 if last is None else last.offset + 1

    def read() -> KeySpace:
        key_space = requested_key_space(connection, topics, partitioner, count, REQUEST_TIMEOUT)
        return key_space.with_event_ends(end_before)

    return read
