"""Delays a partition until the earlier events of its aggregates, in its parent partitions, are projected."""

from functools import partial

from sqlalchemy import Connection, Engine

from cqrs_cli.following.projections.database import read_only
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import read_positions
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.keyspace.followed_key_space import FollowedKeySpace


class ParentBarrier:
    """The parent barrier of one partition.

    It is checked at the partition's first position, also in the transaction of the first batch: a restored backup
    resets the positions of all partitions together.
    """

    def __init__(self, plan: ProjectionPlan, source: EventPartition) -> None:
        self._plan, self._source = plan, source
        self._key_space = FollowedKeySpace(partial(plan.read_key_space, source.aggregate))

    def is_passable(self, engine: Engine) -> bool:
        """Return True if the partition may be projected."""

        def positions() -> dict[int, int]:
            with read_only(engine).connect() as connection:
                return self._positions(connection)

        return self._key_space.is_ready(self._source.partition, positions)

    def is_passable_in(self, db: Connection) -> bool:
        """Return True if the partition may be projected, according to the positions that this transaction sees."""
        return self._key_space.is_ready(self._source.partition, lambda: self._positions(db))

    def _positions(self, db: Connection) -> dict[int, int]:
        return {
            partition: position.next_offset
            for (topic, partition), position in read_positions(db, self._plan.name).items()
            if topic == self._source.topic
        }
