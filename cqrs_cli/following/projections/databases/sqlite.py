"""SQLite: a file with one writer at a time, whose readers do not wait."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Table, create_engine, event, make_url
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import NullPool

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import READ_ONLY, RetryPolicy
from cqrs_cli.following.projections.databases.files import FileDialect, database_file

#: Begins a transaction with the write lock. Two transactions that read first, and write later, could deadlock.
_IMMEDIATE = "BEGIN IMMEDIATE"

#: Primary result codes of a file that temporarily cannot be written: READONLY, IOERR, FULL.
_UNAVAILABLE_CODES = {8, 10, 13}

#: Error texts when another writer holds the lock.
_LOCKED = ("database is locked", "database table is locked", "database schema is locked")


class Sqlite(FileDialect):
    """SQLite. SQLAlchemy defines how times and numbers are stored."""

    name = driver = "sqlite"
    module = "sqlite3"
    example = "sqlite:///orders.db"
    title = "SQLite"
    auxiliary_suffixes = ("-wal", "-shm")

    def open_engine(self, database: DatabaseAddress) -> Engine:
        arguments = {
            "timeout": database.lock_timeout,
            "isolation_level": None,
        }  # `_begin` begins transactions
        engine = create_engine(database.url, connect_args=arguments, poolclass=NullPool)
        event.listen(engine, "connect", _enable_wal)
        event.listen(engine, "begin", _begin)
        return engine

    def open_reader(self, database: DatabaseAddress) -> Engine:
        """Return an engine that only reads, and creates no database file.

        A connection in SQLite's mode `ro` would leave the auxiliary files behind, so the mode is `rw`.
        """
        url = make_url(database.url).set(
            database=database_file(database).as_uri(), query={"mode": "rw", "uri": "true"}
        )
        arguments = {"timeout": database.lock_timeout, "isolation_level": None}
        engine = create_engine(url, connect_args=arguments, poolclass=NullPool)
        event.listen(engine, "connect", _reject_writes)
        event.listen(engine, "begin", _begin)
        return engine

    def retry_policy(self, error: BaseException) -> RetryPolicy:
        if str(error).startswith(_LOCKED):
            return "again"
        primary_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return "wait" if primary_code in _UNAVAILABLE_CODES else "none"

    def upsert(
        self, table: Table, key: Mapping[str, Any], new: Mapping[str, Any], change: Mapping[str, Any]
    ) -> Executable:
        row = sqlite.insert(table).values(**key, **new)
        return row.on_conflict_do_update(index_elements=list(key), set_=change)

    @contextmanager
    def table_swap(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        with engine.connect() as db:
            driver: Any = db.connection.driver_connection
            driver.execute("PRAGMA foreign_keys=OFF")  # the swap recreates tables, then they are valid
            with db.begin():
                yield db
        self.reset_shadow_tables(engine, new)

    def create_statements(self, db: Connection, schema: str | None) -> dict[str, str]:
        query = f"SELECT name, sql FROM {schema or 'main'}.sqlite_master WHERE type = 'table' ORDER BY rowid"
        return dict(tuple(row) for row in db.exec_driver_sql(query))

    def index_statements(self, db: Connection, schema: str) -> list[tuple[str, str]]:
        query = f"SELECT tbl_name, sql FROM {schema}.sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        return [(table, statement) for table, statement in db.exec_driver_sql(query)]


def _enable_wal(connection: sqlite3.Connection, _: object) -> None:
    """Enable write-ahead logging: readers and the writer do not wait for each other.

    With `synchronous=NORMAL`, SQLite syncs its log only at checkpoints. So a crash of the machine may lose the last
    batches, but always rows and position together.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")


def _reject_writes(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA query_only=ON")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if READ_ONLY in connection.get_execution_options() else _IMMEDIATE)
