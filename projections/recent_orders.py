"""Writes the last 30 orders of each customer, and the number of all orders.

    cqrs project recent_orders

The orders of a customer are in several partitions, which are projected concurrently. So the database increments the
number of orders, without a read before the write. Shared rows are written in sorted order, which prevents deadlocks
between batches. The query applies the limit of 30 orders; no row is deleted.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Index,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    select,
    update,
)

import cqrs_cli as cqrs
from aggregates.order import Cancelled, Deleted, Placed, Shipped
from cqrs_cli.projections import upsert

metadata = MetaData()

orders = Table(
    "recent_orders",
    metadata,
    Column("order_id", String, primary_key=True),
    Column("customer", String, nullable=False),
    Column("placed_at", DateTime(timezone=True), nullable=False),
    Column("status", String, nullable=False),
)
Index("recent_orders_by_customer", orders.c.customer, orders.c.placed_at.desc())

customers = Table(
    "customers",
    metadata,
    Column("customer", String, primary_key=True),
    Column("orders", Integer, nullable=False),
)


def project(db: Connection, events: Sequence[cqrs.Recorded[Placed | Shipped | Cancelled | Deleted]]) -> None:
    placed: Counter[str] = Counter()
    for recorded in events:
        match recorded.event:
            case Placed(customer):
                placed[customer] += 1
                place(db, recorded, customer)
            case changed:
                status = type(changed).__name__.lower()
                same = orders.c.order_id == recorded.aggregate_id
                db.execute(update(orders).where(same).values(status=status))
    for customer, count in sorted(placed.items()):
        more = {"orders": customers.c.orders + count}
        upsert(db, customers, {"customer": customer}, {"orders": count}, more)


def place(db: Connection, recorded: cqrs.Recorded[Any], customer: str) -> None:
    """Write an order. A deleted order may be placed again, so its row may exist."""
    row = {"customer": customer, "placed_at": recorded.time, "status": "placed"}
    upsert(db, orders, {"order_id": recorded.aggregate_id}, row, row)


def last_orders(customer: str, count: int = 30) -> Select[Any]:
    """Return the query for a web page."""
    of_customer = select(orders).where(orders.c.customer == customer)
    return of_customer.order_by(orders.c.placed_at.desc(), orders.c.order_id).limit(count)


projection = cqrs.Projection(project, metadata)
