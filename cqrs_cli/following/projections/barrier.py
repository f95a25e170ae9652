"""Delays a partition until the earlier events of its aggregates, in its parent partitions, are projected."""

from sqlalchemy import Connection, Engine

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.following.projections.database import reading
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import read_positions
from cqrs_cli.kafka.event_tail import EventPartition


class ParentBarrier:
    """The parent barrier of one partition.

    It is checked at the partition's first position, also in the transaction of the first batch: a restored backup
    resets the positions of all partitions together.
    """

    def __init__(self, plan: ProjectionPlan, source: EventPartition) -> None:
        self._plan, self._source = plan, source
        self._lineage: PartitionLineage | None = None

    def has_opened(self, engine: Engine) -> bool:
        """Return True if the partition may be projected. Polls the partition history until it contains the split."""
        number = self._source.partition
        if self._lineage is None or self._lineage.birth(number) is None:
            self._lineage = self._plan.lineage(self._source.aggregate)
        if self._lineage is None or self._lineage.parent(number) is None:
            return True
        with reading(engine).connect() as connection:
            return self.is_open(connection)

    def is_open(self, db: Connection) -> bool:
        """Return True if the partition may be projected, according to the positions that this transaction sees."""
        number, topic = self._source.partition, self._source.topic
        if self._lineage is None or self._lineage.parent(number) is None:
            return True
        found = read_positions(db, self._plan.name)
        positions = {one: at.next_offset for (of, one), at in found.items() if of == topic}
        return self._lineage.may_begin(number, positions)
