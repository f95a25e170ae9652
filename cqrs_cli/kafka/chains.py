"""Reading whole logs of an aggregate that may have grown: the chain of each home, its partitions one after the other.

An owner writes nothing of a key after it has given it away. So the records of a key are those of its chain in ascending
number, and no split has to be asked for: a partition that has not split yet is the last link with records.
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


class Link(NamedTuple):
    """A stretch of one partition's log, of the keys with one home: start ≤ offset < end."""

    log: PartitionLog
    start: int
    end: int


class Chains(NamedTuple):
    """The counts of an aggregate's partitions, as far as its topics have grown. One that never grew has one."""

    counts: tuple[int, ...]
    partitioner: Partitioner

    @property
    def have_grown(self) -> bool:
        """True if the records of a key may be in several partitions."""
        return len(self.counts) > 1

    @property
    def homes(self) -> range:
        """The partitions that keys have as their home."""
        return range(self.counts[-1])

    def chain(self, home: int) -> tuple[int, ...]:
        """The partitions that have records of the keys with this home, one after the other."""
        return PartitionLineage(self.counts).chain(home)

    def upto(self, positions: Mapping[int, int] | None) -> "Chains":
        """The chains when these positions were taken: of all partitions before a growth, its children had nothing."""
        if positions is None or len(positions) not in self.counts:
            return self
        return self._replace(counts=self.counts[: self.counts.index(len(positions)) + 1])

    def links(self, log: PartitionLog, bounds: Mapping[int, tuple[int, int]]) -> Iterator[Link]:
        """The stretches to read, one after the other, for the keys whose home is the log's partition.

        `bounds`: (start, end) by partition.
        """
        home = log.partition
        if not self.have_grown:
            yield Link(log, *bounds[home])
            return
        keeps = KeyHome(self.partitioner, self.counts[-1], home)
        for partition in self.chain(home):
            yield Link(replace(log, partition=partition, keeps=keeps), *bounds[partition])

    def size(self, log: PartitionLog, bounds: Mapping[int, tuple[int, int]]) -> int:
        """The offsets of all links together."""
        return sum(link.end - link.start for link in self.links(log, bounds))


def find_chains(
    connection: Cluster,
    topics: Topics,
    partitioner: Partitioner,
    count: int,
    patience: float = HIDDEN_PATIENCE,
) -> Chains:
    """The chains of an aggregate whose topics have `count` partitions. One that never grew is asked for no log.

    A split that a transaction hides is not waited for, unless a wish for `count` partitions stands behind it.
    `patience`: seconds that such a wish may be hidden.
    Raises `ConfigurationError` for topics that have grown otherwise than their lineage says.
    """
    if not readers.exists(connection, topics.lineage):
        return Chains((count,), partitioner)
    lineage = visible_lineage(connection, topics, count)
    if count not in lineage.counts:
        lineage = _whole_lineage(connection, topics, count, patience)
    return Chains(lineage.within(count).counts, partitioner)


def find_lineage(
    connection: Cluster, topics: Topics, count: int, patience: float = HIDDEN_PATIENCE
) -> PartitionLineage | None:
    """The lineage of an aggregate whose topics have `count` partitions, as far as they have grown; None if there is no
    such log. A split that a transaction hides is waited for, `patience` seconds.

    Raises what `find_chains` does.
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
    """The error for topics that have grown otherwise than their lineage says."""
    name, last = topics.aggregate, lineage.counts[-1]
    return ConfigurationError(
        f"the topics of {name} have {count} partitions, its lineage says {last}",
        f"let them grow: cqrs repartition {name} --partitions {adopting_count(last, count)}",
    )
