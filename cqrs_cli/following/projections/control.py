"""The two tables of ours beside a projection's own: how far it is, and what its tables were made as."""

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text

from cqrs_cli.following.projections.mariadb.adapting import COLLATION

CONTROL = MetaData()

# As in SQLite and PostgreSQL, names are compared letter by letter.
_MARIADB: dict[str, Any] = {
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": COLLATION,
}

#: A row for each partition. `owner` is the run that may move it; `next_offset` is that of the next event.
POSITIONS = Table(
    "cqrs_positions",
    CONTROL,
    Column("projection", String(200), primary_key=True),
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("topic_id", String(64), nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("owner", String(200), nullable=False),
    **_MARIADB,
)

#: A row for each projection. `tables`: their columns as the database had them when they were made.
PROJECTIONS = Table(
    "cqrs_projections",
    CONTROL,
    Column("projection", String(200), primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("definition", String(64), nullable=False),
    Column("tables", Text, nullable=False),
    **_MARIADB,
)
