"""The tables of a projection: made in the live place, or beside it."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine, MetaData, Table, delete, insert, inspect, make_url, select, text

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.control import CONTROL, POSITIONS, PROJECTIONS
from cqrs_cli.following.projections.database import reading
from cqrs_cli.following.projections.definition import (
    Columns,
    definition_digest,
    made_metadata,
    read_columns,
    table_names,
)
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.mariadb.connecting import check_engines, check_server
from cqrs_cli.following.projections.mariadb.exchanging import arrived_positions, check_triggers, exclusively
from cqrs_cli.following.projections.plan import DatabasePlace

#: Begins a transaction.
Begin = Callable[[], AbstractContextManager[Connection]]


class MadeTables(NamedTuple):
    """The making of a projection's tables, as they tell it. `tables`: their columns then, as JSON.

    Without a `definition` it was cut off, and some of the tables may be missing.
    """

    revision: int
    definition: str
    tables: str

    @property
    def columns(self) -> Columns:
        return dict(json.loads(self.tables))

    @property
    def names(self) -> list[str]:
        return list(self.columns)


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


def make_tables(engine: Engine, loaded: LoadedProjection, leftover: Sequence[str] = ()) -> None:
    """Make the tables, in one transaction with what is noted about them; drop those that are `leftover` first.

    Their names are noted before: MariaDB commits with each table, and the next run has to know whose they are.
    """
    with engine.begin() as db:
        metadata = made_metadata(loaded, engine)
        names = table_names(metadata)
        _note(db, loaded, "", {name: [] for name in [*leftover, *names]})
        for table in reversed(leftover):
            db.execute(text(f"DROP TABLE IF EXISTS {quoted(db, table)}"))
        metadata.create_all(db, checkfirst=False)
        _note(db, loaded, definition_digest(loaded, engine), read_columns(db, names))


def _note(db: Connection, loaded: LoadedProjection, definition: str, tables: Columns) -> None:
    db.execute(delete(PROJECTIONS).where(PROJECTIONS.c.projection == loaded.name))
    db.execute(
        insert(PROJECTIONS).values(
            projection=loaded.name,
            revision=loaded.projection.revision,
            definition=definition,
            tables=json.dumps(tables),
        )
    )


def quoted(db: Connection, name: str) -> str:
    """The name of a table or schema as it stands in a statement."""
    return str(db.dialect.identifier_preparer.quote(name))


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
        drop_schema(db, place.schema)
        db.execute(text(f"CREATE SCHEMA {quoted(db, place.schema)}"))


def drop_schema(db: Connection, schema: str) -> None:
    """Drop a schema with all that is in it; in MariaDB that is a database."""
    everything = "" if db.dialect.name == "mariadb" else " CASCADE"
    db.execute(text(f"DROP SCHEMA IF EXISTS {quoted(db, schema)}{everything}"))


def adopt_control(db: Connection, name: str, positions: Table, schema: str) -> bool:
    """Put the new tables' positions, and what is noted about them, in the place of the live ones.

    False if there are none any more.
    """
    facts = PROJECTIONS.to_metadata(MetaData(), schema=schema)
    rows = [dict(row) for row in db.execute(select(positions).with_for_update()).mappings()]
    if not rows:
        return False
    fact = db.execute(select(facts).where(facts.c.projection == name)).mappings().one()
    for table, new in ((POSITIONS, rows), (PROJECTIONS, [dict(fact)])):
        db.execute(delete(table).where(table.c.projection == name))
        db.execute(insert(table), new)
    for table in (positions, facts):
        db.execute(delete(table))
    return True


@contextmanager
def preparing(engine: Engine, name: str, new: DatabasePlace) -> Iterator[Begin]:
    """Within the block a run is prepared, whose transactions it begins. In MariaDB that is the only such block, an
    exchange that was cut off is ended before, and what has no transactions is refused.
    """
    if engine.dialect.name != "mariadb":
        yield engine.begin
        return
    with exclusively(engine, name) as db:
        check_server(db)
        finish_exchange(db, name, str(new.schema))
        check_engines(db, list(CONTROL.tables))
        db.commit()
        yield partial(_transaction, db)


@contextmanager
def _transaction(db: Connection) -> Iterator[Connection]:
    with db.begin():
        yield db


def check_exchangeable(engine: Engine, tables: list[str]) -> None:
    """Raise `ConfigurationError` for live tables that could not be exchanged later."""
    if engine.dialect.name == "mariadb":
        with reading(engine).connect() as db:
            check_triggers(db, tables)


def finish_exchange(db: Connection, name: str, schema: str) -> bool:
    """The third step of an exchange in MariaDB, and what is left to drop; False if none was begun."""
    positions = arrived_positions(db, schema, POSITIONS)
    if positions is None:
        return False
    adopt_control(db, name, positions, schema)
    db.commit()
    drop_schema(db, schema)
    return True


def place_exists(live: Engine, place: DatabasePlace) -> bool:
    """True if somebody has begun to fill tables there."""
    if place.schema is None:
        return Path(str(make_url(place.url).database)).exists()
    return place.schema in inspect(live).get_schema_names()
