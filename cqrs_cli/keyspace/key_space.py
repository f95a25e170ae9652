"""The key space of an aggregate: the partition of each key, and the logs that hold the records of its keys.

An aggregate that was never repartitioned has a fixed key space. It has no partition history, and nothing is read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_field
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace as replace_split

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.count_errors import unknown_count_error
from cqrs_cli.kafka.topics.partitioner import KeyFilter, Partitioner, partition_for, producer_partition
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_history import KeyHistory, KeyStage
from cqrs_cli.keyspace.lineage import PartitionLineage, Segment, Stage
from cqrs_cli.keyspace.lineage_log import HIDDEN_RECORD_TIMEOUT, read_lineage, visible_lineage
from cqrs_cli.keyspace.records import Split, children_of


class LogSegment(NamedTuple):
    """A range of one partition's log, start ≤ offset < end, for the keys of one partition."""

    log: PartitionLog
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class KeySpace:
    """The key space of an aggregate, derived from its partition history. The last partition count assigns the keys."""

    lineage: PartitionLineage
    partitioner: Partitioner

    @classmethod
    def fixed(cls, count: int, partitioner: Partitioner) -> "KeySpace":
        """Return the key space of an aggregate that was never repartitioned."""
        return cls(PartitionLineage((count,)), partitioner)

    @property
    def counts(self) -> tuple[int, ...]:
        """All partition counts, ascending: (4, 8), or (4,) without a repartitioning."""
        return self.lineage.counts

    @property
    def was_repartitioned(self) -> bool:
        """True if the records of a key may be in several partitions."""
        return self.lineage.was_repartitioned

    @property
    def partitions(self) -> range:
        """The partitions to which keys belong."""
        return range(self.counts[-1])

    def partition_of(self, key: bytes) -> int | None:
        """Return the partition of a key; None if the partitioner is "none", so that any partition may have the key."""
        return partition_for(self.partitioner, key, self.counts[-1])

    def producer_partition(self, key: bytes) -> int:
        """Return the partition to which a producer sends a key: by the partitioner, or by Java's default if it is
        "none".
        """
        return producer_partition(self.partitioner, key, self.counts[-1])

    def deferred_partition(self, partition: int) -> int:
        """Return the partition of the deferred topic that holds the deferred commands of a partition's keys."""
        return self.lineage.deferred_partition(partition)

    def holds_deferred(self, partition: int, key: bytes) -> bool:
        """True if the valid entries of a key are in this partition of the deferred topic. After a repartitioning, old
        entries of the key, which no longer count, may be in the parent's partition.
        """
        return (
            not self.was_repartitioned or self.deferred_partition(self.producer_partition(key)) == partition
        )

    def partitions_with(self, key: bytes) -> Sequence[int]:
        """Return the partitions that may hold records of a key, in order; all if the partitioner is "none"."""
        partition = self.partition_of(key)
        return self.partitions if partition is None else self.partitions_of(partition)

    def key_filter(self, partition: int) -> KeyFilter:
        """Return the filter for the keys that a partition has now. A pending child has its future keys."""
        return KeyFilter(self.partitioner, self.lineage.effective_count(partition), partition)

    def inherited_keys(self, partition: int) -> KeyFilter:
        """Return the filter for the keys with which a partition begins, which it gets from its parents."""
        return KeyFilter(self.partitioner, self.lineage.initial_count(partition), partition)

    def inherited_splits(self, partition: int) -> tuple[Split, ...]:
        """Return the splits by which a partition got its keys from its ancestors, the oldest first; empty before its
        parent's split.
        """
        return self.lineage.inherited_splits(partition)

    def active_count(self, partition: int) -> int | None:
        """Return the count by which a partition assigns keys; None until its parent has split."""
        return self.lineage.active_count(partition)

    def requested_children(self, partition: int) -> range:
        """Return the partitions to which a partition still has to hand over keys, to reach the last count."""
        count = self.active_count(partition)
        return range(0) if count is None else children_of(partition, count, self.counts[-1])

    def stages(self, topic_partitions: int) -> dict[int, Stage]:
        """Return partition → its stage in the repartitioning; an empty dict if no repartitioning is in progress.

        `topic_partitions`: the number of partitions that all topics have.
        """
        return self.lineage.stages(topic_partitions)

    def unfinished_partitions(self, topic_partitions: int) -> list[int]:
        """Return the parents that still have to split, and the children that do not decide yet. `topic_partitions`: the
        number of partitions that all topics have.
        """
        return self.lineage.unfinished_partitions(topic_partitions)

    def history_of(self, partition: int) -> KeyHistory | None:
        """Return the history of a partition's keys; None if the aggregate was never repartitioned."""
        if not self.was_repartitioned:
            return None
        return KeyHistory(self.lineage, partition, partial(producer_partition, self.partitioner))

    def key_stages(self, partition: int) -> Iterator[KeyStage]:
        """Yield the stages of a partition's commands, one for each partition count that applied to them."""
        history = self.history_of(partition)
        return iter([KeyStage()]) if history is None else history.stages()

    def segments(self, partition: int) -> tuple[Segment, ...]:
        """Return the parts of the logs that hold all records of the partition's keys, in order."""
        return self.lineage.segments(partition)

    def partitions_of(self, partition: int) -> tuple[int, ...]:
        """Return the partitions with records of the keys of a partition, in order. Sample: (1, 5) for partition 5 after
        a repartitioning from 4 to 8.
        """
        return tuple(segment.partition for segment in self.segments(partition))

    def parent(self, partition: int) -> int | None:
        """Return the partition that hands over the first keys to this partition; None for an original partition."""
        return self.lineage.parent(partition)

    def initial_count(self, partition: int) -> int:
        """Return the partition count with which a partition begins."""
        return self.lineage.initial_count(partition)

    def is_pending(self, partition: int) -> bool:
        """True for a child partition before the split of its parent: it has no keys, and no records."""
        return self.parent(partition) is not None and self.lineage.split_creating(partition) is None

    def is_ready(self, partition: int, positions: Mapping[int, int]) -> bool:
        """True if a reader may begin to read the events of a partition, because it has read all earlier events of the
        partition's keys. `positions`: partition → the next offset to read.
        """
        return self.lineage.is_ready(partition, positions)

    def with_event_ends(self, end_before: Callable[[int, int], int]) -> "KeySpace":
        """Return the key space for a reader whose position is always directly after an event, before the transaction
        markers that follow the event. So each split's end of the events is moved to directly after an event, too.

        `end_before(partition, offset)`: returns the offset after the last event before `offset`.
        """
        splits = tuple(
            replace_split(split, events=end_before(split.partition, split.events))
            for split in self.lineage.splits
        )
        return replace_field(self, lineage=replace_field(self.lineage, splits=splits))

    def as_of(self, positions: Mapping[int, int] | None) -> "KeySpace":
        """Return the key space at the time of these positions (partition → offset): the number of positions is the
        partition count at that time.
        """
        if positions is None or len(positions) not in self.counts:
            return self
        return replace_field(self, lineage=self.lineage.up_to_count(len(positions)))

    def log_segments(self, log: PartitionLog, bounds: Mapping[int, tuple[int, int]]) -> Iterator[LogSegment]:
        """Yield the segments with the events of the keys of the log's partition, in order. `bounds`: partition →
        (start, end) of its events.
        """
        if not self.was_repartitioned:
            yield LogSegment(log, *bounds[log.partition])
            return
        key_filter = KeyFilter(self.partitioner, self.counts[-1], log.partition)
        for partition, split in self.segments(log.partition):
            start, end = bounds[partition]
            end = end if split is None else max(start, min(end, split.events))
            yield LogSegment(replace_field(log, partition=partition, key_filter=key_filter), start, end)


def visible_key_space(
    connection: Cluster,
    topics: Topics,
    partitioner: Partitioner,
    count: int,
    timeout: float = HIDDEN_RECORD_TIMEOUT,
) -> KeySpace:
    """Return the key space of an aggregate with `count` partitions now. A split in an open transaction is ignored,
    because a reader of whole logs does not need it.

    If the visible partition history lacks `count`, this function waits up to `timeout` seconds for hidden records.
    Raises `ConfigurationError` if the whole partition history does not contain `count`.
    """
    if not readers.topic_exists(connection, topics.lineage):
        return KeySpace.fixed(count, partitioner)
    lineage = visible_lineage(connection, topics, count)
    if count not in lineage.counts:
        return read_key_space(connection, topics, partitioner, count, timeout)
    return KeySpace(lineage.up_to_count(count), partitioner)


def read_key_space(
    connection: Cluster,
    topics: Topics,
    partitioner: Partitioner,
    count: int,
    timeout: float = HIDDEN_RECORD_TIMEOUT,
) -> KeySpace:
    """Return the key space of an aggregate that has `count` partitions now. It contains every split: this function
    waits up to `timeout` seconds for a split in an open transaction. Raises `ConfigurationError` if the partition
    history does not contain `count`.
    """
    lineage = requested_key_space(connection, topics, partitioner, count, timeout).lineage
    if count not in lineage.counts:
        raise unknown_count_error(topics.aggregate, count, lineage.counts[-1])
    return KeySpace(lineage.up_to_count(count), partitioner)


def requested_key_space(
    connection: Cluster,
    topics: Topics,
    partitioner: Partitioner,
    count: int,
    timeout: float = HIDDEN_RECORD_TIMEOUT,
) -> KeySpace:
    """Return the key space by the last requested count, also while the topics are being extended.

    `count`: the number of partitions if there is no request. `timeout`: seconds to wait for hidden records.
    """
    if not readers.topic_exists(connection, topics.lineage):
        return KeySpace.fixed(count, partitioner)
    return KeySpace(read_lineage(connection, topics, count, timeout), partitioner)


def poll_key_space(connection: Cluster, topics: Topics, count: int) -> KeySpace:
    """Return the key space by the visible records of the partition history, for reports on the progress of a
    repartitioning. The result cannot compute the partition of a key. Raises an error if there is no partition history.
    """
    return KeySpace(visible_lineage(connection, topics, count), "none")
