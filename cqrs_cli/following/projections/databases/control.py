"""The control tables in a projection's database: its positions, and a record of how its tables were created."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
)

CONTROL = MetaData()


def _partition_key() -> list[Column[Any]]:
    """Return the columns of the primary key of a table with a row for each partition."""
    return [
        Column("projection", String(200), primary_key=True),
        Column("topic", String(249), primary_key=True),
        Column("partition", Integer, primary_key=True, autoincrement=False),
    ]


#: A row for each partition. `owner`: the run that may move the position. `next_offset`: the offset of the next event.
#: `last_offset`, `last_digest`: offset and SHA-256 of the last event's record, or null before the first event. They
#: show whether the log is still the log from which the tables were filled.
POSITIONS = Table(
    "cqrs_positions",
    CONTROL,
    *_partition_key(),
    Column("topic_id", String(64), nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("owner", String(200), nullable=False),
    Column("last_offset", BigInteger),
    Column("last_digest", String(64)),
)

#: A row for each projection. `definition`: the digest of the tables' definition; empty after an interrupted creation.
#: `tables`: the columns that the database reported after creation, as JSON.
PROJECTIONS = Table(
    "cqrs_projections",
    CONTROL,
    Column("projection", String(200), primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("definition", String(64), nullable=False),
    Column("tables", Text, nullable=False),
)

#: The last error (`last_error.LastError`) of each partition, until a run commits a batch or has no new events.
ERRORS = Table(
    "cqrs_errors",
    CONTROL,
    *_partition_key(),
    Column("type", String(200), nullable=False),
    Column("message", Text, nullable=False),
    Column("event_offset", BigInteger, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
)


def swap_control_rows(db: Connection, projection: str, positions: Table) -> None:
    """Replace a projection's live rows in `cqrs_positions` and `cqrs_projections` in a table swap, and delete its
    errors.

    The new rows come from the table `positions`, and from the table `cqrs_projections` in the same schema.
    """
    db.execute(delete(ERRORS).where(ERRORS.c.projection == projection))
    projections = PROJECTIONS.to_metadata(MetaData(), schema=str(positions.schema))
    for live, new in ((POSITIONS, positions), (PROJECTIONS, projections)):
        rows = select(new).where(new.c.projection == projection)
        db.execute(delete(live).where(live.c.projection == projection))
        db.execute(insert(live).from_select(list(live.columns.keys()), rows))
