"""A customer's last 30 orders, and how many there were in all.

    cqrs project recent_orders

A customer's orders are on several partitions, which are projected at the same time. So the number of orders is added to
where it stands, never read and written back; rows that several partitions share are written in one order, or two
batches would wait for each other; and the limit is in the query, not in deleting the 31st.
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
    """An order; one that was deleted may be placed again."""
    row = {"customer": customer, "placed_at": recorded.time, "status": "placed"}
    upsert(db, orders, {"order_id": recorded.aggregate_id}, row, row)


def last_orders(customer: str, count: int = 30) -> Select[Any]:
    """The query of a web page."""
    of_customer = select(orders).where(orders.c.customer == customer)
    return of_customer.order_by(orders.c.placed_at.desc(), orders.c.order_id).limit(count)


projection = cqrs.Projection(project, metadata)
