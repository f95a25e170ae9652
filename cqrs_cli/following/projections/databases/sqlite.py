"""SQLite: a file with one writer at a time, whose readers do not wait."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Table, create_engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import NullPool

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import READS, Remedy
from cqrs_cli.following.projections.databases.files import FileDialect

#: A transaction that takes the one write lock at once: two that read first could both wait for the other.
_IMMEDIATE = "BEGIN IMMEDIATE"

#: Its words when another writer was faster.
_LOCKED = ("database is locked", "database table is locked", "database schema is locked")


class Sqlite(FileDialect):
    """Times and numbers are kept as SQLAlchemy does it."""

    name = driver = "sqlite"
    module = "sqlite3"
    example = "sqlite:///orders.db"
    title = "SQLite"
    beyond = ("-wal", "-shm")

    def open(self, place: DatabaseAddress) -> Engine:
        arguments = {"timeout": place.patience, "isolation_level": None}  # we begin transactions ourselves
        engine = create_engine(place.url, connect_args=arguments, poolclass=NullPool)
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
        return engine

    def remedy(self, error: BaseException) -> Remedy:
        return "again" if str(error).startswith(_LOCKED) else "none"

    def upsert(
        self, table: Table, key: Mapping[str, Any], new: Mapping[str, Any], change: Mapping[str, Any]
    ) -> Executable:
        row = sqlite.insert(table).values(**key, **new)
        return row.on_conflict_do_update(index_elements=list(key), set_=change)

    @contextmanager
    def exchanging(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        with engine.connect() as db:
            held: Any = db.connection.driver_connection
            held.execute("PRAGMA foreign_keys=OFF")  # tables go and come: whole again at the end
            with db.begin():
                yield db
        self.clear(engine, new)

    def tables(self, db: Connection, schema: str | None) -> dict[str, str]:
        query = f"SELECT name, sql FROM {schema or 'main'}.sqlite_master WHERE type = 'table' ORDER BY rowid"
        return dict(tuple(row) for row in db.exec_driver_sql(query))

    def indexes(self, db: Connection, schema: str) -> list[tuple[str, str]]:
        query = f"SELECT tbl_name, sql FROM {schema}.sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        return [(table, script) for table, script in db.exec_driver_sql(query)]


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    """A log ahead of the file: readers and the writer do not wait for each other.

    Synced at checkpoints only: a lost machine may lose the last batches, rows and positions alike.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if READS in connection.get_execution_options() else _IMMEDIATE)
