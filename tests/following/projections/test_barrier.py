"""The parent barrier: a child partition waits for the parents of its keys. A run notices added partitions."""

import threading
from dataclasses import fields

import pytest
from sqlalchemy import Engine

from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import move_position
from cqrs_cli.following.projections.projector import Projector
from cqrs_cli.kafka.event_tail import EventPartition, require_all_partitions
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Split
from tests.following.projections.projector_harness import (
    TOPIC,
    ListTail,
    Logs,
    event_partition,
    make_plan,
    open_engine,
    recent_orders,
    take_over,
)

LOGS: Logs = {event_partition(0): [], event_partition(1): []}


class RepartitionedPlan(ProjectionPlan):
    """A plan in which partition 0 gave keys to partition 1 after three events."""

    def read_key_space(self, source: EventPartition) -> KeySpace:
        lineage = PartitionLineage((1, 2), (Split(0, 1, 2, 0, 3, 0, 0, 0),))
        return KeySpace(lineage, "murmur2")


def idle_projector(plan: ProjectionPlan, engine: Engine) -> Projector:
    """Return the projector of partition 1, which does not run."""
    tail = ListTail(LOGS[event_partition(1)], 0, 1)
    return Projector(plan, event_partition(1), recent_orders(), engine, lambda *_: tail, threading.Event())


def move_position_of_parent(engine: Engine, plan: ProjectionPlan, before: int, after: int) -> None:
    """Move the position of partition 0."""
    with engine.begin() as db:
        move_position(db, plan, event_partition(0), before, after)


def test_restored_backup_closes_the_barrier(sqlite_database: DatabaseAddress) -> None:
    """The target is at its beginning and has checked the barrier, and then a restore moves all positions back."""
    original_plan = make_plan(LOGS, sqlite_database)
    plan = RepartitionedPlan(
        **{field.name: getattr(original_plan, field.name) for field in fields(original_plan)}
    )
    take_over(plan, recent_orders())
    with open_engine(sqlite_database) as engine:
        target = idle_projector(plan, engine)
        assert not target.is_ready()
        move_position_of_parent(engine, plan, 0, 3)
        assert target.is_ready()
        move_position_of_parent(engine, plan, 3, 0)
        with engine.connect() as db:
            assert not target.is_ready_in(db)


def test_unrepartitioned_topic_needs_no_check(sqlite_database: DatabaseAddress) -> None:
    """The check needs neither the broker, which does not exist, nor the database, which has no tables."""
    with open_engine(sqlite_database) as engine:
        assert idle_projector(make_plan(LOGS, sqlite_database), engine).is_ready()


def test_added_partitions_end_a_run() -> None:
    sources = [event_partition(0), event_partition(1)]
    require_all_partitions({TOPIC: 2}, sources)
    with pytest.raises(
        UnavailableError, match=r"order\.events has 4 partitions now, 2 of them are read; start"
    ):
        require_all_partitions({TOPIC: 4}, [*sources, *sources])
