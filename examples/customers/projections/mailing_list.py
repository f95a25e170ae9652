"""Subscribers of the newsletter, and their addresses. An erased customer is on it no longer.

cqrs project mailing_list
"""

from collections.abc import Sequence

from customers.customer import Left, Moved, Registered
from sqlalchemy import Column, Connection, MetaData, String, Table, delete, update

import cqrs_cli as cqrs
from cqrs_cli.projections import upsert

metadata = MetaData()

readers = Table(
    "mailing_list",
    metadata,
    Column("customer", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("mail", String, nullable=False),
    Column("country", String, nullable=False),
)

Heard = Registered | Moved | Left | cqrs.Erased


def project(db: Connection, events: Sequence[cqrs.Recorded[Heard]]) -> None:
    for recorded in events:
        mine = readers.c.customer == recorded.aggregate_id
        match recorded.event:
            case Registered(name, mail, country):
                row = {"name": name, "mail": mail, "country": country}
                upsert(db, readers, {"customer": recorded.aggregate_id}, row, row)
            case Moved(_, country):
                db.execute(update(readers).where(mine).values(country=country))
            case Left() | cqrs.Erased():  # our copy is ours to erase
                db.execute(delete(readers).where(mine))


projection = cqrs.Projection(project, metadata)
