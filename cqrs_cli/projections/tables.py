"""The tables of a projection: made in the live place, or beside it."""

import json
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, insert, inspect, make_url, select, text

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.projections.control import CONTROL, PROJECTIONS
from cqrs_cli.projections.definition import definition_digest, read_columns, table_names
from cqrs_cli.projections.load import LoadedProjection
from cqrs_cli.projections.plan import DatabasePlace


class MadeTables(NamedTuple):
    """The making of a projection's tables, as they tell it. `tables`: their columns then, as JSON."""

    revision: int
    definition: str
    tables: str

    @property
    def names(self) -> list[str]:
        return list(json.loads(self.tables))


def read_made(connection: Connection, name: str) -> MadeTables | None:
    """The row about a projection; None if it has no tables in this place."""
    if not inspect(connection).has_table(PROJECTIONS.name):
        return None
    row = PROJECTIONS.c
    query = select(row.revision, row.definition, row.tables).where(row.projection == name)
    found = connection.execute(query).one_or_none()
    return None if found is None else MadeTables(*found)


def refuse_foreign(connection: Connection, loaded: LoadedProjection, own: list[str]) -> None:
    """Raise `ConfigurationError` if a table that has to be made exists, and is not one of its `own` present ones."""
    inspector = inspect(connection)
    for table in table_names(loaded.projection.metadata):
        if table not in own and inspector.has_table(table):
            raise ConfigurationError(
                f"the database has a table {table}, which projection {loaded.name} did not make",
                "give the projection's table another name, or name another database: --to",
            )


def make_tables(engine: Engine, loaded: LoadedProjection) -> None:
    """Make the tables, in one transaction with what is noted about them."""
    metadata = loaded.projection.metadata
    with engine.begin() as db:
        metadata.create_all(db, checkfirst=False)
        made = json.dumps(read_columns(db, table_names(metadata)))
        db.execute(delete(PROJECTIONS).where(PROJECTIONS.c.projection == loaded.name))
        db.execute(
            insert(PROJECTIONS).values(
                projection=loaded.name,
                revision=loaded.projection.revision,
                definition=definition_digest(loaded, engine),
                tables=made,
            )
        )


def make_control(engine: Engine) -> None:
    """Make our own tables where they are missing."""
    CONTROL.create_all(engine)


def clear_place(live: Engine, place: DatabasePlace) -> None:
    """Drop what stands beside the live tables, and make room for new ones."""
    if place.schema is None:
        file = str(make_url(place.url).database)
        for name in (file, f"{file}-wal", f"{file}-shm"):
            Path(name).unlink(missing_ok=True)
        return
    with live.begin() as db:
        db.execute(text(f'DROP SCHEMA IF EXISTS "{place.schema}" CASCADE'))
        db.execute(text(f'CREATE SCHEMA "{place.schema}"'))


def place_exists(live: Engine, place: DatabasePlace) -> bool:
    """True if somebody has begun to fill tables there."""
    if place.schema is None:
        return Path(str(make_url(place.url).database)).exists()
    return place.schema in inspect(live).get_schema_names()
