"""Writes every event of every aggregate as a row, for any later query.

cqrs project all_events
"""

from collections.abc import Sequence

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
)

import cqrs_cli as cqrs

metadata = MetaData()

events = Table(
    "all_events",
    metadata,
    Column("topic", String, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("offset", BigInteger, primary_key=True, autoincrement=False),
    Column("aggregate_id", String, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("time", DateTime(timezone=True), nullable=False),
    Column("type", String, nullable=False),
    Column("data", Text, nullable=False),
)


def project(db: Connection, recorded: Sequence[cqrs.Recorded[cqrs.Event]]) -> None:
    rows = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "offset": one.offset,
            "aggregate_id": one.aggregate_id,
            "version": one.version,
            "time": one.time,
            "type": type(one.event).__name__,
            "data": msgspec.json.encode(one.event).decode(),
        }
        for one in recorded
    ]
    db.execute(insert(events), rows)


projection = cqrs.Projection(project, metadata)
