"""The projection recent_orders beside its second revision."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Column, Integer, MetaData, String, Table, insert
from sqlalchemy.dialects import mysql, postgresql, sqlite

import cqrs_cli as cqrs
from aggregates.order import Placed
from cqrs_cli.following.projections.control import CONTROL
from cqrs_cli.following.projections.database import new_place
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import DatabasePlace, ProjectionPlan
from cqrs_cli.following.projections.tables import clear_place, make_tables
from tests.following.projections.feeding import (
    Logs,
    errors,
    opened,
    plan,
    projected,
    recent_orders,
    rows,
    take,
)

INSERTS: dict[str, Any] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
    "mariadb": mysql.insert,
}


def second_revision() -> LoadedProjection:
    """Other tables: the orders have no index any more, the customers are called buyers."""
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
        for one in events:
            if isinstance(one.event, Placed):
                customer = one.event.customer
                more = {"orders": buyers.c.orders + 1}  # in one statement: two partitions may have a customer
                row = INSERTS[db.dialect.name](buyers).values(customer=customer, orders=1)
                if db.dialect.name == "mariadb":
                    db.execute(row.on_duplicate_key_update(more))
                else:
                    db.execute(row.on_conflict_do_update(index_elements=["customer"], set_=more))
                db.execute(insert(orders).values(order_id=one.aggregate_id, customer=customer))

    return replace(first, projection=cqrs.Projection(project, metadata, revision=2))


def begin_beside(live: ProjectionPlan, loaded: LoadedProjection, owner: str) -> ProjectionPlan:
    """New tables, empty."""
    new = replace(live, place=new_place(live.place, live.name), owner=owner)
    with opened(live.place) as engine:
        clear_place(engine, new.place)
    with opened(new.place) as engine:
        CONTROL.create_all(engine, checkfirst=False)
        make_tables(engine, loaded)
    take(new)
    return new


def buyers(place: DatabasePlace) -> dict[str, int]:
    return dict(rows(place, "SELECT customer, orders FROM buyers"))


def filled(place: DatabasePlace, logs: Logs, owner: str = "old") -> ProjectionPlan:
    """The live tables, with all that is in the logs."""
    live = plan(logs, place, owner)
    take(live, recent_orders())
    assert errors(projected(live, logs, recent_orders())) == []
    return live
