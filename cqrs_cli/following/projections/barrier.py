"""Holds a partition back until the earlier events of its aggregates, in the partitions before it, are projected."""

from sqlalchemy import Connection, Engine

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.following.projections.database import reading
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import read_positions
from cqrs_cli.kafka.event_tail import EventPartition


class Barrier:
    """Asked whenever the partition stands at its beginning, also in the transaction of its first batch: a backup that
    is restored takes all positions back together.
    """

    def __init__(self, plan: ProjectionPlan, source: EventPartition) -> None:
        self._plan, self._source = plan, source
        self._lineage: PartitionLineage | None = None

    def has_opened(self, engine: Engine) -> bool:
        """True if the partition may begin. Asks the lineage until it says how far the other partitions come first."""
        number = self._source.partition
        if self._lineage is None or self._lineage.birth(number) is None:
            self._lineage = self._plan.lineage(self._source.aggregate)
        if self._lineage is None or self._lineage.parent(number) is None:
            return True
        with reading(engine).connect() as connection:
            return self.is_open(connection)

    def is_open(self, db: Connection) -> bool:
        """The same, by what the lineage has said, as a transaction sees the positions."""
        number, topic = self._source.partition, self._source.topic
        if self._lineage is None or self._lineage.parent(number) is None:
            return True
        found = read_positions(db, self._plan.name)
        positions = {one: at.next_offset for (of, one), at in found.items() if of == topic}
        return self._lineage.may_begin(number, positions)
