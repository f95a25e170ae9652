"""Subscribers of the newsletter, and their addresses. The row of an erased customer is deleted.

cqrs project mailing_list
"""

from collections.abc import Sequence

from customers.customer import Left, Moved, Registered
from sqlalchemy import Column, Connection, MetaData, String, Table, delete, update

import cqrs_cli as cqrs
from cqrs_cli.projections import upsert

metadata = MetaData()

subscribers = Table(
    "mailing_list",
    metadata,
    Column("customer", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("mail", String, nullable=False),
    Column("country", String, nullable=False),
)

CustomerEvent = Registered | Moved | Left | cqrs.Erased


def project(db: Connection, events: Sequence[cqrs.Recorded[CustomerEvent]]) -> None:
    for recorded in events:
        is_customer = subscribers.c.customer == recorded.aggregate_id
        match recorded.event:
            case Registered(name, mail, country):
                row = {"name": name, "mail": mail, "country": country}
                upsert(db, subscribers, {"customer": recorded.aggregate_id}, row, row)
            case Moved(_, country):
                db.execute(update(subscribers).where(is_customer).values(country=country))
            case Left() | cqrs.Erased():  # a projection must erase its own copy
                db.execute(delete(subscribers).where(is_customer))


projection = cqrs.Projection(project, metadata)
