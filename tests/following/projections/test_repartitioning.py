"""Projecting a repartitioned aggregate: a child partition is projected after its parent's split."""

from dataclasses import fields
from typing import Any

import pytest

from aggregates.order import Placed, Shipped
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.tables import create_control_tables, create_tables
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.lineage_log import HiddenLineageError
from cqrs_cli.keyspace.records import Split
from tests.following.projections.projector_harness import (
    ListTail,
    Logs,
    error_texts,
    event_partition,
    event_record,
    expected_tables,
    make_plan,
    open_engine,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
)
from tests.support.waiting import eventually

#: Order `o` is placed in 0, and shipped in its child partition.
LOGS: Logs = {
    event_partition(0): [event_record(0, "o", 1, Placed("ann")), event_record(1, "p", 1, Placed("bob"))],
    event_partition(1): [event_record(0, "o", 2, Shipped(), 1)],
}


class PendingSplitPlan(ProjectionPlan):
    """A plan in which partitions were added, and no partition has split."""

    def read_key_space(self, source: EventPartition) -> KeySpace:
        return KeySpace(PartitionLineage((1, 2)), "murmur2")


class SplitPlan(ProjectionPlan):
    """A plan in which partition 0 has split."""

    def read_key_space(self, source: EventPartition) -> KeySpace:
        return KeySpace(PartitionLineage((1, 2), (Split(0, 1, 2, 1, 1, 1, 0, 0),)), "murmur2")


def repartitioned_plan(
    database: DatabaseAddress, logs: Logs = LOGS, plan_class: type[ProjectionPlan] = SplitPlan
) -> ProjectionPlan:
    plan = make_plan(logs, database)
    return plan_class(**{field.name: getattr(plan, field.name) for field in fields(plan)})


def test_target_waits_for_its_parent(sqlite_database: DatabaseAddress) -> None:
    notes: list[str] = []

    def tail(partition: EventPartition, start: int) -> Any:
        if partition.partition == 0:
            eventually(lambda: notes)
        return ListTail(LOGS[partition], start, 1)

    plan, loaded = repartitioned_plan(sqlite_database), recent_orders()
    take_over(plan, loaded)
    assert error_texts(run_projectors(plan, LOGS, loaded, tail=tail, notes=notes)) == []
    assert notes == [
        "projection recent_orders, order.events partition 1: waits for its parent partition, which had its keys before"
    ]
    assert read_tables(sqlite_database) == expected_tables(LOGS)


@pytest.mark.parametrize("before_split", [False, True])
def test_earlier_projection_continues(sqlite_database: DatabaseAddress, before_split: bool) -> None:
    """The projection started before partitions were added, or before the split. It reads the whole child partition."""
    old_logs: Logs = {event_partition(0): LOGS[event_partition(0)]}
    logs_while_splitting: Logs = {**old_logs, event_partition(1): []}
    loaded = recent_orders()
    first = (
        (repartitioned_plan(sqlite_database, logs_while_splitting, PendingSplitPlan), logs_while_splitting)
        if before_split
        else (make_plan(old_logs, sqlite_database), old_logs)
    )
    with open_engine(sqlite_database) as engine:
        create_control_tables(engine)
        create_tables(engine, loaded)
    for plan, logs in (first, (repartitioned_plan(sqlite_database), LOGS)):
        take_over(plan)
        assert error_texts(run_projectors(plan, logs, loaded)) == []
    assert read_tables(sqlite_database) == expected_tables(LOGS)


class HiddenSplitPlan(SplitPlan):
    """A plan whose split is hidden at first, by the transaction of a killed owner."""

    def read_key_space(self, source: EventPartition) -> KeySpace:
        if _HIDDEN_REASONS:
            raise HiddenLineageError(_HIDDEN_REASONS.pop())
        return super().read_key_space(source)


_HIDDEN_REASONS: list[str] = []


def test_projection_waits_for_hidden_split(sqlite_database: DatabaseAddress) -> None:
    notes: list[str] = []
    plan, loaded = repartitioned_plan(sqlite_database, plan_class=HiddenSplitPlan), recent_orders()
    take_over(plan, loaded)
    _HIDDEN_REASONS.append("it is hidden")
    assert error_texts(run_projectors(plan, LOGS, loaded, notes=notes)) == []
    assert not _HIDDEN_REASONS and any("it is hidden" in note for note in notes)
    assert read_tables(sqlite_database) == expected_tables(LOGS)


def test_target_without_events_does_not_block(sqlite_database: DatabaseAddress) -> None:
    logs: Logs = {event_partition(0): [], event_partition(1): []}
    plan, loaded = repartitioned_plan(sqlite_database, logs), recent_orders()
    take_over(plan, loaded)
    assert error_texts(run_projectors(plan, logs, loaded)) == []
