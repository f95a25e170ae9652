"""Creates the tables of a projection: live tables, or shadow tables."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, insert, inspect, select, text

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.databases.control import CONTROL, PROJECTIONS
from cqrs_cli.following.projections.databases.dialect import quoted
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.definition import (
    Columns,
    database_metadata,
    definition_digest,
    read_columns,
    table_names,
)
from cqrs_cli.following.projections.load import LoadedProjection


class TableRecord(NamedTuple):
    """The record of how a projection's tables were created."""

    revision: int
    #: The digest of the definition; empty after an interrupted creation, when some tables may be missing.
    definition: str
    tables: str  # the columns of the tables when they were created, as JSON

    @property
    def columns(self) -> Columns:
        return dict(json.loads(self.tables))

    @property
    def names(self) -> list[str]:
        return list(self.columns)


def read_table_record(connection: Connection, name: str) -> TableRecord | None:
    """Return the record of a projection's tables; None if this database or schema has none."""
    if not inspect(connection).has_table(PROJECTIONS.name):
        return None
    columns = PROJECTIONS.c
    query = select(columns.revision, columns.definition, columns.tables).where(columns.projection == name)
    row = connection.execute(query).one_or_none()
    return None if row is None else TableRecord(*row)


def check_foreign_tables(
    connection: Connection, loaded_projection: LoadedProjection, own_tables: list[str]
) -> None:
    """Raise `ConfigurationError` if a table to create exists and is not in `own_tables`, the projection's present
    tables.
    """
    inspector = inspect(connection)
    for table in table_names(loaded_projection.projection.metadata):
        if table not in own_tables and inspector.has_table(table):
            raise ConfigurationError(
                f"the database already has a table {table}, which projection {loaded_projection.name} did not create",
                "rename the projection's table, or choose another database: --to",
            )


def create_tables(
    engine: Engine, loaded_projection: LoadedProjection, old_tables: Sequence[str] = ()
) -> None:
    """Drop `old_tables`, and create the projection's tables and their record in one transaction.

    The names are recorded before the tables are created: MariaDB commits after each table, so an interruption may leave
    some tables, which the next run must recognize as its own.
    """
    with engine.begin() as db:
        metadata = database_metadata(loaded_projection, engine)
        names = table_names(metadata)
        _write_table_record(db, loaded_projection, "", {name: [] for name in [*old_tables, *names]})
        for table in reversed(old_tables):
            db.execute(text(f"DROP TABLE IF EXISTS {quoted(db, table)}"))
        metadata.create_all(db, checkfirst=False)
        _write_table_record(
            db, loaded_projection, definition_digest(loaded_projection, engine), read_columns(db, names)
        )


def _write_table_record(
    db: Connection, loaded_projection: LoadedProjection, definition: str, tables: Columns
) -> None:
    db.execute(delete(PROJECTIONS).where(PROJECTIONS.c.projection == loaded_projection.name))
    db.execute(
        insert(PROJECTIONS).values(
            projection=loaded_projection.name,
            revision=loaded_projection.projection.revision,
            definition=definition,
            tables=json.dumps(tables),
        )
    )


def create_control_tables(engine: Engine, *, must_be_new: bool = False) -> None:
    """Create the control tables where they are missing; with `must_be_new` they must not exist yet."""
    dialect_of(engine).adapt_metadata(CONTROL).create_all(engine, checkfirst=not must_be_new)
