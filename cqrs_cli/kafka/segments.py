"""Segments of a key: reads of whole logs of an aggregate whose partitions may have been split.

An owner writes no record of a key after it has handed the key over. So the records of a key are in the partitions of
its chain, in ascending order of their numbers. Readers need not know the splits: a partition that has not split yet is
the last segment with records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from cqrs_cli.core.lineage import PartitionLineage, adopting_count
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.lineage_log import HIDDEN_PATIENCE, read_lineage, visible_lineage
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import KeyHome, Partitioner
from cqrs_cli.kafka.topics.topics import Topics


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
    def have_grown(self) -> bool:
        """True if the records of a key may be in several partitions."""
        return len(self.counts) > 1

    @property
    def homes(self) -> range:
        """The partitions to which keys belong by the last count."""
        return range(self.counts[-1])

    def chain(self, home: int) -> tuple[int, ...]:
        """Return the partitions with records of the keys of partition `home`, in order: (1, 5) for 5 in (4, 8)."""
        return PartitionLineage(self.counts).chain(home)

    def upto(self, positions: Mapping[int, int] | None) -> "PartitionCounts":
        """Return the chains as of these positions, by partition. Partitions that were added later had no records."""
        if positions is None or len(positions) not in self.counts:
            return self
        return self._replace(counts=self.counts[: self.counts.index(len(positions)) + 1])

    def links(self, log: PartitionLog, bounds: Mapping[int, tuple[int, int]]) -> Iterator[LogSegment]:
        """Yield the segments to read, in order, for the keys of the log's partition.

        `bounds`: (start, end) by partition.
        """
        home = log.partition
        if not self.have_grown:
            yield LogSegment(log, *bounds[home])
            return
        keeps = KeyHome(self.partitioner, self.counts[-1], home)
        for partition in self.chain(home):
            yield LogSegment(replace(log, partition=partition, keeps=keeps), *bounds[partition])

    def size(self, log: PartitionLog, bounds: Mapping[int, tuple[int, int]]) -> int:
        """Return the number of offsets in all segments together."""
        return sum(link.end - link.start for link in self.links(log, bounds))


def find_chains(
    connection: Cluster,
    topics: Topics,
    partitioner: Partitioner,
    count: int,
    patience: float = HIDDEN_PATIENCE,
) -> PartitionCounts:
    """Return the chains of an aggregate with `count` partitions. Reads no log if it was never repartitioned.

    Splits in an open transaction are ignored. But if the visible partition history lacks `count`, hidden records are
    awaited for `patience` seconds. Raises `ConfigurationError` if the partition history does not contain `count`.
    """
    if not readers.exists(connection, topics.lineage):
        return PartitionCounts((count,), partitioner)
    lineage = visible_lineage(connection, topics, count)
    if count not in lineage.counts:
        lineage = _whole_lineage(connection, topics, count, patience)
    return PartitionCounts(lineage.within(count).counts, partitioner)


def find_lineage(
    connection: Cluster, topics: Topics, count: int, patience: float = HIDDEN_PATIENCE
) -> PartitionLineage | None:
    """Return the partition history of an aggregate up to `count`, the partition count of its topics; None if there is
    no such log. Hidden splits in an open transaction are awaited for `patience` seconds.

    Raises the errors of `find_chains`.
    """
    if not readers.exists(connection, topics.lineage):
        return None
    return _whole_lineage(connection, topics, count, patience).within(count)


def _whole_lineage(connection: Cluster, topics: Topics, count: int, patience: float) -> PartitionLineage:
    lineage = read_lineage(connection, topics, count, patience)
    if count not in lineage.counts:
        raise another_lineage(topics, count, lineage)
    return lineage


def another_lineage(topics: Topics, count: int, lineage: PartitionLineage) -> ConfigurationError:
    """Return the error for topics whose partition count is not in their partition history."""
    name, last = topics.aggregate, lineage.counts[-1]
    return ConfigurationError(
        f"the topics of {name} have {count} partitions, its lineage says {last}",
        f"let them grow: cqrs repartition {name} --partitions {adopting_count(last, count)}",
    )
