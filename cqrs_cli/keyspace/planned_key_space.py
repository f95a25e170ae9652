"""The key space of an aggregate in the plan of a run: the driver reads it once, so that owners need not read it."""

from dataclasses import dataclass

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.topics.count_errors import unknown_count_error
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import AggregateTopics, Topics
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.lineage_log import read_lineage, visible_lineage, visible_lineage_with_end


@dataclass(frozen=True, slots=True)
class PlannedKeySpace:
    """The key space of an aggregate whose topics all have `count` partitions.

    `lineage`: the partition history, if owners need not read it; else None. `end`: the end of its log when the driver
    read it; None if the history cannot change.
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
        """True if the aggregate may have been repartitioned, so its partition history must be read."""
        return self.lineage is None or self.lineage.was_repartitioned

    def initial_assigned_keys(self, partition: int) -> AssignedKeys:
        """Return the assigned keys of a partition before its owner has read the partition history."""
        return self._assigned_keys(partition, PartitionLineage((self.count,)))

    def read_assigned_keys(
        self,
        connection: Cluster,
        partition: int,
        bounds: tuple[int, int] | None = None,
        pool: ConsumerPool | None = None,
    ) -> AssignedKeys:
        """Return the assigned keys of a partition, by the current partition history. `bounds`: (start, end) of its log;
        None before a fence.

        If the driver has found all repartitionings complete, the history is read again only if its log has another end.
        """
        if self.lineage is not None and (self.end is None or bounds is None or bounds[1] == self.end):
            return self._assigned_keys(partition, self.lineage)
        lineage = read_lineage(connection, self.topics, self.count, bounds=bounds, pool=pool)
        return self._assigned_keys(partition, lineage)

    def visible_assigned_keys(self, connection: Cluster, partition: int) -> AssignedKeys | None:
        """Return the assigned keys by the visible partition history; None without a history."""
        if not self.has_history:
            return None
        return self._assigned_keys(partition, visible_lineage(connection, self.topics, self.count))

    def _assigned_keys(self, partition: int, lineage: PartitionLineage) -> AssignedKeys:
        return AssignedKeys(lineage, partition, self.count, self.partitioner)


def plan_key_space(
    connection: Cluster, aggregate_topics: AggregateTopics, partitioner: Partitioner
) -> PlannedKeySpace:
    """Return the key space of an aggregate for a run. Raise `ConfigurationError` if the partition count of the topics
    is not in the partition history: then a key would be decided in two partitions.

    If the visible records contain the count, this function does not wait for hidden records, because the owners of this
    run may have to end the transaction that hides them. An empty history is no error: it remains if a repartitioning is
    interrupted before it writes its request.
    """
    topics, count = aggregate_topics.topics, aggregate_topics.partitions
    if aggregate_topics.lineage_id is None:
        return PlannedKeySpace.fixed(topics, partitioner, count)
    visible_history, end = visible_lineage_with_end(connection, topics, count)
    lineage = visible_history if count in visible_history.counts else read_lineage(connection, topics, count)
    if count not in lineage.counts:
        raise unknown_count_error(topics.aggregate, count, lineage.counts[-1])
    if lineage.was_repartitioned and partitioner == "none":
        raise ConfigurationError(
            f"the partitions of {topics.aggregate} were repartitioned: "
            'with partitioner = "none" the partition of a key is unknown',
            'set partitioner to what the clients use: "murmur2" or "crc32"',
        )
    if visible_history.was_repartitioned and not visible_history.unfinished_partitions(count):
        return PlannedKeySpace(topics, partitioner, count, visible_history, end, was_repartitioned=True)
    return PlannedKeySpace(topics, partitioner, count, was_repartitioned=lineage.was_repartitioned)
