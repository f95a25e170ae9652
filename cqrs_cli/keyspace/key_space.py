"""Segments of a key: reads of whole logs of an aggregate whose partitions may have been split.

An owner writes no record of a key after it has handed the key over. So the records of a key are in the partitions of
its segments, in ascending order of their numbers. Readers need not know the splits: a partition that has not split yet
is the last segment with records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import KeyHome, Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.lineage import PartitionLineage, count_covering
from cqrs_cli.keyspace.lineage_log import HIDDEN_RECORD_TIMEOUT, read_lineage, visible_lineage


class LogSegment(NamedTuple):
    """A segment: a range of one partition's log, start ≤ offset < end, for the keys of one partition."""

    log: PartitionLog
    start: int
    end: int


class PartitionCounts(NamedTuple):
    """The partition counts of an aggregate, up to the count of its topics: (4, 8), or (4,) without a repartitioning."""

    counts: tuple[int, ...]
    partitioner: Partitioner

    @property
    def were_raised(self) -> bool:
        """True if the records of a key may be in several partitions."""
        return len(self.counts) > 1

    @property
    def current_partitions(self) -> range:
        """The partitions to which keys belong by the last count."""
        return range(self.counts[-1])

    def partitions_of(self, partition: int) -> tuple[int, ...]:
        """Return the partitions with records of the keys of partition `partition`, in order: (1, 5) for 5 in (4, 8)."""
        return PartitionLineage(self.counts).segments(partition)

    def as_of(self, positions: Mapping[int, int] | None) -> "PartitionCounts":
        """Return the counts at the time of these positions, by partition. Partitions added later had no records."""
        if positions is None or len(positions) not in self.counts:
            return self
        return self._replace(counts=self.counts[: self.counts.index(len(positions)) + 1])

    def segments(self, log: PartitionLog, bounds: Mapping[int, tuple[int, int]]) -> Iterator[LogSegment]:
        """Yield the segments to read, in order, for the keys of the log's partition.

        `bounds`: (start, end) by partition.
        """
        own_partition = log.partition
        if not self.were_raised:
            yield LogSegment(log, *bounds[own_partition])
            return
        key_filter = KeyHome(self.partitioner, self.counts[-1], own_partition)
        for partition in self.partitions_of(own_partition):
            yield LogSegment(replace(log, partition=partition, key_filter=key_filter), *bounds[partition])

    def size(self, log: PartitionLog, bounds: Mapping[int, tuple[int, int]]) -> int:
        """Return the number of offsets in all segments together."""
        return sum(segment.end - segment.start for segment in self.segments(log, bounds))


def find_partition_counts(
    connection: Cluster,
    topics: Topics,
    partitioner: Partitioner,
    count: int,
    timeout: float = HIDDEN_RECORD_TIMEOUT,
) -> PartitionCounts:
    """Return the partition counts of an aggregate with `count` partitions now.

    Reads no log if the aggregate was never repartitioned. Splits in an open transaction are ignored. But if the visible
    partition history lacks `count`, hidden records are awaited for `timeout` seconds. Raises `ConfigurationError` if
    the partition history does not contain `count`.
    """
    if not readers.exists(connection, topics.lineage):
        return PartitionCounts((count,), partitioner)
    lineage = visible_lineage(connection, topics, count)
    if count not in lineage.counts:
        lineage = _whole_lineage(connection, topics, count, timeout)
    return PartitionCounts(lineage.up_to_count(count).counts, partitioner)


def find_lineage(
    connection: Cluster, topics: Topics, count: int, timeout: float = HIDDEN_RECORD_TIMEOUT
) -> PartitionLineage | None:
    """Return the partition history of an aggregate up to `count`, the partition count of its topics; None if there is
    no such log. Hidden splits in an open transaction are awaited for `timeout` seconds.

    Raises the errors of `find_partition_counts`.
    """
    if not readers.exists(connection, topics.lineage):
        return None
    return _whole_lineage(connection, topics, count, timeout).up_to_count(count)


def _whole_lineage(connection: Cluster, topics: Topics, count: int, timeout: float) -> PartitionLineage:
    lineage = read_lineage(connection, topics, count, timeout)
    if count not in lineage.counts:
        raise unknown_count_error(topics, count, lineage)
    return lineage


def unknown_count_error(topics: Topics, count: int, lineage: PartitionLineage) -> ConfigurationError:
    """Return the error for topics whose partition count is not in their partition history."""
    name, last = topics.aggregate, lineage.counts[-1]
    return ConfigurationError(
        f"the topics of {name} have {count} partitions, but its partition history ends with {last}",
        f"raise the count: cqrs repartition {name} --partitions {count_covering(last, count)}",
    )
