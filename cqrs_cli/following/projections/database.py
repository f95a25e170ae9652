"""Opens the database of a projection: SQLite, PostgreSQL or MariaDB, by SQLAlchemy."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.projections.failures import remedy
from cqrs_cli.following.projections.mariadb import connecting as mariadb
from cqrs_cli.following.projections.mariadb.exchanging import beside_name
from cqrs_cli.following.projections.plan import DatabasePlace

#: Seconds that SQLite waits for another writer before it says that the database is locked.
BUSY = 30.0

#: Stands in a connection's info while a projection works in its transaction, with what ended that, or None.
_KEPT = "cqrs_transaction_kept"

#: The drivers, by the name in a URL.
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mariadb": mariadb.DRIVER}

#: Where a password can stand instead.
_PASSWORDS = {
    "postgresql": "put it into ~/.pgpass, or PGPASSWORD",
    "mariadb": "put it into ~/.my.cnf, or MYSQL_PWD",
}

#: The execution option of connections that only read.
_READS = "cqrs_reads"

#: A transaction that takes SQLite's one write lock at once: two that read first could both wait for the other.
_IMMEDIATE = "BEGIN IMMEDIATE"


def parse_database(text: str, root: Path, flag: str = "--to") -> DatabasePlace:
    """The place that a flag's URL names; raises `UsageError` for one that cannot be used. A relative file is below
    `root`.
    """
    try:
        url = make_url(text)
    except ArgumentError:
        raise UsageError(
            f"{flag}: not a URL of a database: {text[:80]!r}", "e.g. sqlite:///orders.db"
        ) from None
    if url.password:
        raise UsageError(
            f"{flag}: a password is not accepted on the command line",
            _PASSWORDS.get(url.get_backend_name(), "leave it out"),
        )
    url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    if url.drivername not in _DRIVERS.values():
        raise UsageError(
            f"{flag}: {url.drivername} is not supported",
            "write sqlite:///FILE, postgresql://… or mariadb://…",
        )
    if url.drivername == mariadb.DRIVER and not url.database:
        raise UsageError(f"{flag}: MariaDB needs the name of a database", "write mariadb://shop@db-1/shop")
    if url.drivername == "sqlite":
        if url.database in (None, "", ":memory:") or url.query:
            raise UsageError(f"{flag}: SQLite needs a file", "write sqlite:///orders.db")
        url = url.set(database=str((root / str(url.database)).resolve()))
    return DatabasePlace(url.render_as_string())


def open_database(place: DatabasePlace) -> Engine:
    """An engine whose transactions are what projecting needs. No connection outlives its use or its thread."""
    url = make_url(place.url)
    arguments: dict[str, Any] = {}
    options: dict[str, Any] = {"pool_size": 100}
    if url.drivername == "sqlite":
        arguments = {"timeout": BUSY, "isolation_level": None}  # we begin transactions ourselves
        options = {"poolclass": NullPool}
    elif url.drivername == mariadb.DRIVER:
        url = url.set(database=place.schema or url.database)
        arguments = mariadb.driver_arguments()
        options["isolation_level"] = "READ COMMITTED"  # PostgreSQL's: no gap between rows is locked
    elif place.schema is not None:
        arguments = {"options": f'-csearch_path="{place.schema}",public'}
    try:
        engine = create_engine(url, connect_args=arguments, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigurationError(f"{error}", "install it: pip install 'cqrs-cli[projections]'") from error
    if url.drivername == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    event.listen(engine, "commit", _refuse_ending)
    event.listen(engine, "rollback", _refuse_ending)
    if url.drivername == mariadb.DRIVER:
        event.listen(engine, "connect", mariadb.note_limit)
        event.listen(engine, "handle_error", _note_ending)
        event.listen(engine, "before_cursor_execute", _refuse_committing)
    return engine


def new_place(place: DatabasePlace, projection: str) -> DatabasePlace:
    """The place in which a projection's new tables are filled: a file beside SQLite's, a schema of PostgreSQL's, a
    database beside MariaDB's.
    """
    url = make_url(place.url)
    if url.drivername == "sqlite":
        return DatabasePlace(url.set(database=f"{url.database}-{projection}-new").render_as_string())
    if url.drivername == mariadb.DRIVER:
        return DatabasePlace(place.url, beside_name(str(url.database), projection))
    return DatabasePlace(place.url, f"cqrs_new_{projection}")


def shown(place: DatabasePlace) -> str:
    """The database's name for people, without a password."""
    url: URL = make_url(place.url)
    return str(url.render_as_string(hide_password=True))


def reading(engine: Engine) -> Engine:
    """The engine for looking only: it waits for no writer."""
    return engine.execution_options(**{_READS: True})


@contextmanager
def transaction_kept(db: Connection) -> Iterator[None]:
    """Within the block the transaction can be neither committed nor rolled back: rows and position belong together.

    Raises at its end what the database ended the transaction with, if a projection went on after that.
    """
    info = db.info
    info[_KEPT] = None
    try:
        yield
        if (ended := info.get(_KEPT)) is not None:
            raise ended
    finally:
        info.pop(_KEPT, None)


def _note_ending(context: ExceptionContext) -> None:
    """A deadlock is the end of MariaDB's transaction: what comes then would be written without the position."""
    db, error = context.connection, context.sqlalchemy_exception
    if db is not None and not db.invalidated and _KEPT in db.info and error and remedy(error) == "again":
        db.info[_KEPT] = error


def _refuse_committing(db: Connection, _cursor: object, statement: str, *_: object) -> None:
    if _KEPT in db.info and mariadb.is_committing(statement):
        raise RuntimeError(
            f"{' '.join(statement.split()[:2])} ends the transaction in MariaDB, which holds the projection's position"
        )


def _refuse_ending(db: Connection) -> None:
    if not db.invalidated and _KEPT in db.info:
        # Else the connection would go back to its pool with the transaction still open: SQLAlchemy takes it for ended.
        db.invalidate()
        raise RuntimeError(
            "a projection neither commits nor rolls back: the transaction holds its position, too"
        )


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    """A log ahead of the file: readers and the writer do not wait for each other.

    Synced at checkpoints only: a lost machine may lose the last batches, rows and positions alike.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if _READS in connection.get_execution_options() else _IMMEDIATE)
