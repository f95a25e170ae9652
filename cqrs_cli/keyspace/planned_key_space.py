"""The key space of an aggregate in the plan of a run: what the driver has read, and owners need not read again."""

from dataclasses import dataclass

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import AggregateTopics, Topics
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.keyspace.count_errors import unknown_count_error
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.lineage_log import read_lineage, visible_lineage, visible_lineage_with_end


@dataclass(frozen=True, slots=True)
class PlannedKeySpace:
    """The key space of an aggregate whose topics all have `count` partitions.

    `lineage`: the partition history if the driver has read it completely. `end`: the end of its log then; None for a
    history that does not change.
    """

    topics: Topics
    partitioner: Partitioner
    count: int
    lineage: PartitionLineage | None = None
    end: int | None = None
    was_repartitioned: bool = False

    @classmethod
    def fixed(cls, topics: Topics, partitioner: Partitioner, count: int) -> "PlannedKeySpace":
        """Return the key space of an aggregate that was never repartitioned."""
        return cls(topics, partitioner, count, PartitionLineage((count,)))

    @property
    def has_history(self) -> bool:
        """True if the aggregate may have been repartitioned."""
        return self.lineage is None or self.lineage.was_repartitioned

    def initial_keys(self, partition: int) -> AssignedKeys:
        """Return the assigned keys of a partition before its owner has read the partition history."""
        return self._keys(partition, PartitionLineage((self.count,)))

    def read_keys(
        self,
        connection: Cluster,
        partition: int,
        bounds: tuple[int, int] | None = None,
        pool: ConsumerPool | None = None,
    ) -> AssignedKeys:
        """Return the assigned keys of a partition, by the current partition history.

        A history that was complete when the run began is read again only if `bounds`, the (start, end) of its log, has
        another end. Before a fence `bounds` is None.
        """
        if self.lineage is not None and (self.end is None or bounds is None or bounds[1] == self.end):
            return self._keys(partition, self.lineage)
        lineage = read_lineage(connection, self.topics, self.count, bounds=bounds, pool=pool)
        return self._keys(partition, lineage)

    def visible_keys(self, connection: Cluster, partition: int) -> AssignedKeys | None:
        """Return the assigned keys by the visible partition history; None without a history."""
        if not self.has_history:
            return None
        return self._keys(partition, visible_lineage(connection, self.topics, self.count))

    def _keys(self, partition: int, lineage: PartitionLineage) -> AssignedKeys:
        return AssignedKeys(lineage, partition, self.count, self.partitioner)


def plan_key_space(
    connection: Cluster, described: AggregateTopics, partitioner: Partitioner
) -> PlannedKeySpace:
    """Return the key space of an aggregate for a run. Raise `ConfigurationError` if the partition count of the topics
    is not in the partition history: then a key would be decided in two partitions.

    A repartitioning that was interrupted before its request has left an empty history. Hidden records are waited for
    only if the count requires them, because the owners of this run may have to end the transaction that hides them.
    """
    topics, count = described.topics, described.partitions
    if described.lineage_id is None:
        return PlannedKeySpace.fixed(topics, partitioner, count)
    visible, end = visible_lineage_with_end(connection, topics, count)
    lineage = visible if count in visible.counts else read_lineage(connection, topics, count)
    if count not in lineage.counts:
        raise unknown_count_error(topics.aggregate, count, lineage.counts[-1])
    if lineage.was_repartitioned and partitioner == "none":
        raise ConfigurationError(
            f"the partitions of {topics.aggregate} were repartitioned: "
            'with partitioner = "none" the partition of a key is unknown',
            'set partitioner to what the clients use: "murmur2" or "crc32"',
        )
    if visible.was_repartitioned and not visible.unfinished_partitions(count):
        return PlannedKeySpace(topics, partitioner, count, visible, end, was_repartitioned=True)
    return PlannedKeySpace(topics, partitioner, count, was_repartitioned=lineage.was_repartitioned)
