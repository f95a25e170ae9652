"""Table swaps without a broker."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, insert, inspect

import cqrs_cli as cqrs
from aggregates.order import Placed
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.swap import raise_first_error, swap_tables
from cqrs_cli.following.projections.tables import create_control_tables, create_tables
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.projections import upsert
from tests.following.projections.projector_harness import (
    Logs,
    error_texts,
    make_plan,
    open_engine,
    query_rows,
    recent_orders,
    run_projectors,
    take_over,
)


def second_revision() -> LoadedProjection:
    """Return a projection with other tables: the orders have no index, and the customers are called buyers."""
    first = recent_orders()
    metadata = MetaData()
    buyers = Table(
        "buyers",
        metadata,
        Column("customer", String, primary_key=True),
        Column("orders", Integer, nullable=False),
    )
    orders = Table(
        "recent_orders",
        metadata,
        Column("order_id", String, primary_key=True),
        Column("customer", String, nullable=False, index=True),
    )

    def project(db: Any, events: Any) -> None:
        for recorded in events:
            if isinstance(recorded.event, Placed):
                customer = recorded.event.customer
                more = {"orders": buyers.c.orders + 1}  # one statement: partitions share customers
                upsert(db, buyers, {"customer": customer}, {"orders": 1}, more)
                db.execute(insert(orders).values(order_id=recorded.aggregate_id, customer=customer))

    return replace(first, projection=cqrs.Projection(project, metadata, revision=2))


def referencing_tables() -> LoadedProjection:
    """Return a projection with buyers, and orders that refer to them."""
    metadata = MetaData()
    buyers = Table(
        "buyers", metadata, Column("customer", String, primary_key=True), Column("orders", Integer)
    )
    to = ForeignKey("buyers.customer", name="of_buyer")
    orders = Table(
        "an_order",
        metadata,
        Column("order_id", String, primary_key=True),
        Column("customer", String, to),
        Column("again", ForeignKey("buyers.customer")),
    )

    def project(db: Any, events: Any) -> None:
        for recorded in events:
            if isinstance(recorded.event, Placed):
                customer = recorded.event.customer
                upsert(db, buyers, {"customer": customer}, {"orders": 1}, {"orders": 1})
                db.execute(
                    insert(orders).values(order_id=recorded.aggregate_id, customer=customer, again=customer)
                )

    return replace(recent_orders(), projection=cqrs.Projection(project, metadata, revision=2))


def catch_up(
    new: ProjectionPlan, logs: Logs, loaded: LoadedProjection, end_offsets: Mapping[EventPartition, int]
) -> None:
    """Project the missing events into the new tables."""
    raise_first_error(run_projectors(replace(new, end_offsets=end_offsets), logs, loaded))


def create_shadow_tables(live: ProjectionPlan, loaded: LoadedProjection, owner: str) -> ProjectionPlan:
    """Create empty new tables, and return the plan for them."""
    dialect = dialect_of(live.database)
    new = replace(live, database=dialect.shadow_address(live.database, live.name), owner=owner)
    with open_engine(live.database) as engine:
        dialect.reset_shadow_tables(engine, new.database)
    with open_engine(new.database) as engine:
        create_control_tables(engine, must_be_new=True)
        create_tables(engine, loaded)
    take_over(new)
    return new


def has_shadow_tables(live: DatabaseAddress, new: DatabaseAddress) -> bool:
    """True if new tables exist."""
    with open_engine(live) as engine:
        return dialect_of(live).has_shadow_tables(engine, new)


def order_counts_by_buyer(database: DatabaseAddress) -> dict[str, int]:
    return dict(query_rows(database, "SELECT customer, orders FROM buyers"))


def table_names(database: DatabaseAddress) -> set[str]:
    with open_engine(database) as engine:
        return set(inspect(engine).get_table_names())


def fill_live_tables(database: DatabaseAddress, logs: Logs, owner: str = "old") -> ProjectionPlan:
    """Fill the live tables with all events of the logs, and return their plan."""
    live = make_plan(logs, database, owner)
    take_over(live, recent_orders())
    assert error_texts(run_projectors(live, logs, recent_orders())) == []
    return live


def swap_to_second_revision(live: ProjectionPlan, new: ProjectionPlan, logs: Logs) -> None:
    """Swap in the tables of the second revision, after they have caught up with the logs."""
    swap_tables(live, new, partial(catch_up, new, logs, second_revision()))
