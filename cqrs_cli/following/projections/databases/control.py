"""The control tables in a projection's database: its positions, and a record of how its tables were created."""

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

#: A row for each partition. `owner` is the run that may move the position; `next_offset` is the offset of the next
#: event. `last_offset` and `last_digest` are the evidence of the last event, null before the first event.
POSITIONS = Table(
    "cqrs_positions",
    CONTROL,
    Column("projection", String(200), primary_key=True),
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("topic_id", String(64), nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("owner", String(200), nullable=False),
    Column("last_offset", BigInteger),
    Column("last_digest", String(64)),
)

#: A row for each projection. `tables`: the columns that the database reported after creation, as JSON.
PROJECTIONS = Table(
    "cqrs_projections",
    CONTROL,
    Column("projection", String(200), primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("definition", String(64), nullable=False),
    Column("tables", Text, nullable=False),
)


def swap_control_rows(db: Connection, projection: str, positions: Table) -> None:
    """Replace a projection's live positions and table record with the rows in `positions` and its schema's record."""
    projections = PROJECTIONS.to_metadata(MetaData(), schema=str(positions.schema))
    for live, new in ((POSITIONS, positions), (PROJECTIONS, projections)):
        rows = select(new).where(new.c.projection == projection)
        db.execute(delete(live).where(live.c.projection == projection))
        db.execute(insert(live).from_select(list(live.columns.keys()), rows))
