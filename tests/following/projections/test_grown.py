"""Projecting a repartitioned aggregate: a target partition is projected after its parent's split."""

from dataclasses import fields
from typing import Any

import pytest

from aggregates.order import Placed, Shipped
from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.repartitioning import Split
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.tables import make_control, make_tables
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.lineage_log import HiddenLineageError
from tests.following.projections.feeding import (
    ListTail,
    Logs,
    errors,
    model,
    opened,
    plan,
    projected,
    recent_orders,
    record,
    source,
    take,
    told,
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
    place: DatabaseAddress, logs: Logs = LOGS, kind: type[ProjectionPlan] = GrownPlan
) -> ProjectionPlan:
    made = plan(logs, place)
    return kind(**{one.name: getattr(made, one.name) for one in fields(made)})


def test_child_waits_for_its_parent(file: DatabaseAddress) -> None:
    notes: list[str] = []

    def tail(one: EventPartition, start: int) -> Any:
        if one.partition == 0:
            eventually(lambda: notes)
        return ListTail(LOGS[one], start, 1)

    made, loaded = grown(file), recent_orders()
    take(made, loaded)
    assert errors(projected(made, LOGS, loaded, tail=tail, notes=notes)) == []
    assert notes == [
        "projection recent_orders, order.events partition 1: waits for the partition that had its keys"
    ]
    assert told(file) == model(LOGS)


@pytest.mark.parametrize("while_growing", [False, True])
def test_projection_of_before_goes_on(file: DatabaseAddress, while_growing: bool) -> None:
    """The projection started before partitions were added, or before the split. The target is at its beginning."""
    before: Logs = {source(0): LOGS[source(0)]}
    during: Logs = {**before, source(1): []}
    loaded = recent_orders()
    first = (grown(file, during, GrowingPlan), during) if while_growing else (plan(before, file), before)
    with opened(file) as engine:
        make_control(engine)
        make_tables(engine, loaded)
    for made, there in (first, (grown(file), LOGS)):
        take(made)
        assert errors(projected(made, there, loaded)) == []
    assert told(file) == model(LOGS)


class HiddenPlan(GrownPlan):
    """A plan whose split is hidden at first, by the transaction of a killed owner."""

    def lineage(self, aggregate: str) -> PartitionLineage | None:
        if _HIDING:
            raise HiddenLineageError(_HIDING.pop())
        return super().lineage(aggregate)


_HIDING: list[str] = []


def test_hidden_split_is_waited_for(file: DatabaseAddress) -> None:
    notes: list[str] = []
    made, loaded = grown(file, kind=HiddenPlan), recent_orders()
    take(made, loaded)
    _HIDING.append("it is hidden")
    assert errors(projected(made, LOGS, loaded, notes=notes)) == []
    assert not _HIDING and any("it is hidden" in note for note in notes)
    assert told(file) == model(LOGS)


def test_child_without_events_holds_up_nobody(file: DatabaseAddress) -> None:
    logs: Logs = {source(0): [], source(1): []}
    made, loaded = grown(file, logs), recent_orders()
    take(made, loaded)
    assert errors(projected(made, logs, loaded)) == []
