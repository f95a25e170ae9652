from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from sqlalchemy import Column, Connection, DateTime, MetaData, String, Table, insert

import cqrs_cli as cqrs
from aggregates.order import Cancelled, Placed
from cqrs_cli.testing import BrokenLaw, projection
from tests.core.personal.customer import Registered
from tests.following.projections.projector_harness import recent_orders

RECENT = recent_orders().projection
ORDERS, CUSTOMERS = projection(RECENT), RECENT.metadata.tables["customers"]


def test_rows_are_compared_in_any_order() -> None:
    ORDERS.rows(CUSTOMERS)
    (
        ORDERS.when(Placed("ann"), Cancelled("late"), aggregate_id="o-1")
        .when(Placed("bob"), aggregate_id="o-2")
        .when(Placed("ann"), aggregate_id="o-3")
        .rows(CUSTOMERS, {"customer": "bob", "orders": 1}, {"customer": "ann", "orders": 2})
    )


def test_versions_count_per_aggregate() -> None:
    recorded = ORDERS.when(Placed("ann")).when(Placed("bob"), aggregate_id="o-2").when(Cancelled("late"))
    assert [(event.version, event.offset) for event in recorded.recorded] == [(1, 1), (1, 2), (2, 3)]


def test_differing_rows_are_shown() -> None:
    with pytest.raises(AssertionError) as raised:
        ORDERS.when(Placed("ann")).rows(CUSTOMERS)
    assert str(raised.value) == (
        "when:\n  id-1: Placed(customer='ann')\nexpected:\n  no row\n"
        "found:\n  {'customer': 'ann', 'orders': 1}"
    )


def test_times_with_zone_are_explained() -> None:
    metadata, noon = MetaData(), datetime(2026, 1, 1, 12, tzinfo=UTC)
    table = Table("orders", metadata, Column("at", DateTime))

    def project(db: Connection, events: Sequence[cqrs.Recorded[Placed]]) -> None:
        db.execute(insert(table), [{"at": event.time} for event in events])

    orders = projection(cqrs.Projection(project, metadata)).when(Placed("ann"), time=noon)
    orders.rows(table, {"at": noon.replace(tzinfo=None)})
    with pytest.raises(AssertionError, match="hint: SQLite returns times without a zone"):
        orders.rows(table, {"at": noon})


def test_batches_may_not_change_rows() -> None:
    metadata = MetaData()
    table = Table("firsts", metadata, Column("customer", String))

    def project(db: Connection, events: Sequence[cqrs.Recorded[Placed]]) -> None:
        db.execute(insert(table).values(customer=events[0].event.customer))

    first_customers = projection(cqrs.Projection(project, metadata))
    first_customers.when(Placed("ann")).rows(table, {"customer": "ann"})
    with pytest.raises(BrokenLaw, match=r"test_projection\.py:\d+: batches of one event give other rows"):
        first_customers.when(Placed("ann"), Placed("bob")).rows(table, {"customer": "ann"})


def test_personal_events_need_erased() -> None:
    def project_names(db: Connection, events: Sequence[cqrs.Recorded[Registered]]) -> None:
        pass

    def project_erasures(db: Connection, events: Sequence[cqrs.Recorded[Registered | cqrs.Erased]]) -> None:
        pass

    with pytest.raises(TypeError, match=r"^personal fields are in Registered: subscribe to cqrs\.Erased"):
        projection(cqrs.Projection(project_names, MetaData()))
    projection(cqrs.Projection(project_names, MetaData(), keeps_personal="a law asks for it"))
    projection(cqrs.Projection(project_erasures, MetaData())).when(cqrs.Erased("key"))


def test_personal_events_of_all_events_need_erased() -> None:
    def project_all(db: Connection, events: Sequence[cqrs.Recorded[cqrs.Event]]) -> None:
        pass

    everything = projection(cqrs.Projection(project_all, MetaData())).when(Placed("ann"))
    with pytest.raises(TypeError, match=r"^personal fields are in Registered: subscribe to cqrs\.Erased"):
        everything.when(Registered("Ann", "a@b", "pro"))
