"""Projecting a repartitioned aggregate: a target partition is projected after its parent's split."""

from dataclasses import fields
from typing import Any

import pytest

from aggregates.order import Placed, Shipped
from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.repartitioning import Split
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.tables import create_control_tables, create_tables
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.lineage_log import HiddenLineageError
from tests.following.projections.projector_harness import (
    ListTail,
    Logs,
    errors,
    expected_tables,
    make_plan,
    open_engine,
    read_tables,
    recent_orders,
    record,
    run_projectors,
    source,
    take_over,
)
from tests.support.waiting import eventually

#: Order `o` is placed in 0, and shipped in its target partition.
LOGS: Logs = {
    source(0): [record(0, "o", 1, Placed("ann")), record(1, "p", 1, Placed("bob"))],
    source(1): [record(0, "o", 2, Shipped(), 1)],
}


class GrowingPlan(ProjectionPlan):
    """A plan in which partitions were added, and no partition has split."""

    def lineage(self, aggregate: str) -> PartitionLineage | None:
        return PartitionLineage((1, 2))


class GrownPlan(ProjectionPlan):
    """A plan with the partition history."""

    def lineage(self, aggregate: str) -> PartitionLineage | None:
        return PartitionLineage((1, 2), (Split(0, 1, 2, 1, 1, 1, 0, 0),))


def grown(
    database: DatabaseAddress, logs: Logs = LOGS, kind: type[ProjectionPlan] = GrownPlan
) -> ProjectionPlan:
    plan = make_plan(logs, database)
    return kind(**{one.name: getattr(plan, one.name) for one in fields(plan)})


def test_child_waits_for_its_parent(sqlite_database: DatabaseAddress) -> None:
    notes: list[str] = []

    def tail(one: EventPartition, start: int) -> Any:
        if one.partition == 0:
            eventually(lambda: notes)
        return ListTail(LOGS[one], start, 1)

    plan, loaded = grown(sqlite_database), recent_orders()
    take_over(plan, loaded)
    assert errors(run_projectors(plan, LOGS, loaded, tail=tail, notes=notes)) == []
    assert notes == [
        "projection recent_orders, order.events partition 1: waits for its parent partition, which had its keys before"
    ]
    assert read_tables(sqlite_database) == expected_tables(LOGS)


@pytest.mark.parametrize("while_growing", [False, True])
def test_projection_of_before_goes_on(sqlite_database: DatabaseAddress, while_growing: bool) -> None:
    """The projection started before partitions were added, or before the split. The target is at its beginning."""
    before: Logs = {source(0): LOGS[source(0)]}
    during: Logs = {**before, source(1): []}
    loaded = recent_orders()
    first = (
        (grown(sqlite_database, during, GrowingPlan), during)
        if while_growing
        else (make_plan(before, sqlite_database), before)
    )
    with open_engine(sqlite_database) as engine:
        create_control_tables(engine)
        create_tables(engine, loaded)
    for plan, there in (first, (grown(sqlite_database), LOGS)):
        take_over(plan)
        assert errors(run_projectors(plan, there, loaded)) == []
    assert read_tables(sqlite_database) == expected_tables(LOGS)


class HiddenPlan(GrownPlan):
    """A plan whose split is hidden at first, by the transaction of a killed owner."""

    def lineage(self, aggregate: str) -> PartitionLineage | None:
        if _HIDING:
            raise HiddenLineageError(_HIDING.pop())
        return super().lineage(aggregate)


_HIDING: list[str] = []


def test_hidden_split_is_waited_for(sqlite_database: DatabaseAddress) -> None:
    notes: list[str] = []
    plan, loaded = grown(sqlite_database, kind=HiddenPlan), recent_orders()
    take_over(plan, loaded)
    _HIDING.append("it is hidden")
    assert errors(run_projectors(plan, LOGS, loaded, notes=notes)) == []
    assert not _HIDING and any("it is hidden" in note for note in notes)
    assert read_tables(sqlite_database) == expected_tables(LOGS)


def test_child_without_events_holds_up_nobody(sqlite_database: DatabaseAddress) -> None:
    logs: Logs = {source(0): [], source(1): []}
    plan, loaded = grown(sqlite_database, logs), recent_orders()
    take_over(plan, loaded)
    assert errors(run_projectors(plan, logs, loaded)) == []
