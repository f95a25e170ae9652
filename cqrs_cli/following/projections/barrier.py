"""Delays a partition until the earlier events of its aggregates, in its parent partitions, are projected."""

from sqlalchemy import Connection, Engine

from cqrs_cli.following.projections.database import read_only
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import read_positions
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.keyspace.lineage import PartitionLineage


class ParentBarrier:
    """The parent barrier of one partition.

    It is checked at the partition's first position, also in the transaction of the first batch: a restored backup
    resets the positions of all partitions together.
    """

    def __init__(self, plan: ProjectionPlan, source: EventPartition) -> None:
        self._plan, self._source = plan, source
        self._history: PartitionLineage | None = None

    def is_passable(self, engine: Engine) -> bool:
        """Return True if the partition may be projected. Polls the partition history until it contains the split."""
        partition = self._source.partition
        if self._history is None or self._history.split_creating(partition) is None:
            self._history = self._plan.lineage(self._source.aggregate)
        if self._history is None or self._history.parent(partition) is None:
            return True
        with read_only(engine).connect() as connection:
            return self.is_passable_in(connection)

    def is_passable_in(self, db: Connection) -> bool:
        """Return True if the partition may be projected, according to the positions that this transaction sees."""
        partition, topic = self._source.partition, self._source.topic
        if self._history is None or self._history.parent(partition) is None:
            return True
        next_offsets = {
            source_partition: position.next_offset
            for (source_topic, source_partition), position in read_positions(db, self._plan.name).items()
            if source_topic == topic
        }
        return self._history.is_ready(partition, next_offsets)
