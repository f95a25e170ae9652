"""MariaDB: strict connections, and a table swap in three steps, because each DDL statement commits its transaction.

1. A transaction makes the run that filled the shadow tables the owner of the live positions, so that the older run
   writes nothing more.
2. One `RENAME TABLE`, which is atomic even in a crash, moves the live tables away and the shadow tables into place. It
   also renames the new positions to `cqrs_arrived`.
3. A transaction moves the rows of `cqrs_arrived` into the positions table.

If step 3 is missing after a crash, the next run finds `cqrs_arrived`, and does step 3 first. Until then the positions
lag the tables, so no client that waits for an event returns too early. No run writes then, because step 1 has
changed the owner of the positions. One session does all steps, under a lock that ends with the session. So no other run
can start between two steps.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    Executable,
    MetaData,
    Table,
    create_engine,
    delete,
    event,
    func,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import OperationalError

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.projections.databases import mariadb_session as session
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import CONTROL, POSITIONS, swap_control_rows
from cqrs_cli.following.projections.databases.dialect import (
    TRANSACTION_GUARD,
    Begin,
    Dialect,
    RetryPolicy,
    TableSwap,
    quoted,
)
from cqrs_cli.following.projections.databases.mariadb_tables import adapt_for_mariadb

#: The first release whose `RENAME TABLE` is atomic in a crash.
_MIN_VERSION = (10, 6)

#: The name of the new positions table after step 2, and the name prefix of the replaced tables, which get numbers.
_ARRIVED = "cqrs_arrived"
_OLD = "cqrs_old_"

#: Seconds that the table swap waits for open readers. New readers wait for the swap.
RENAME_TIMEOUT = 5

#: Maximum length of a database name.
_MAX_NAME = 64


class MariaDb(Dialect):
    """MariaDB; shadow tables are in a separate database."""

    name = "mariadb"
    driver = session.DRIVER
    module = "pymysql"
    example = "mariadb://…"
    password_hint = "put it into ~/.my.cnf, or MYSQL_PWD"

    def complete_url(self, url: URL, root: Path, flag: str) -> URL:
        if not url.database:
            raise UsageError(
                f"{flag}: the URL of MariaDB needs the name of a database",
                "for example mariadb://shop@db-1/shop",
            )
        return url

    def open_engine(self, database: DatabaseAddress) -> Engine:
        url = make_url(database.url)
        engine = create_engine(
            url.set(database=database.schema or url.database),
            connect_args=session.driver_arguments(database.lock_timeout),
            pool_size=100,
            isolation_level="READ COMMITTED",  # PostgreSQL's default: no gap locks
        )
        event.listen(engine, "connect", session.store_size_limit)
        event.listen(engine, "handle_error", self._record_transaction_end)
        event.listen(engine, "before_cursor_execute", _reject_implicit_commit)
        return engine

    def _record_transaction_end(self, context: ExceptionContext) -> None:
        """Record an error that has ended the transaction, such as a deadlock. Otherwise later rows would be committed
        without the position.
        """
        db, error = context.connection, context.sqlalchemy_exception
        if db is None or error is None or self.retry_policy(context.original_exception) != "again":
            return  # a connection that fails while it is opened has no `info` yet
        if not db.invalidated and TRANSACTION_GUARD in db.info:
            db.info[TRANSACTION_GUARD] = error

    def retry_policy(self, error: BaseException) -> RetryPolicy:
        code = session.error_code(error)
        return (
            "again"
            if code in session.RETRY_CODES
            else "wait"
            if code in session.UNAVAILABLE_CODES
            else "none"
        )

    def is_already_exists(self, error: BaseException) -> bool:
        return session.error_code(error) in session.ALREADY_EXISTS_CODES

    def is_not_found(self, error: BaseException) -> bool:
        return session.error_code(error) in session.NOT_FOUND_CODES

    def error_text(self, error: BaseException) -> str:
        return str(error.args[-1] if session.error_code(error) else error)

    def adapt_metadata(self, metadata: MetaData) -> MetaData:
        return adapt_for_mariadb(metadata)

    def check_tables(self, db: Connection, tables: Sequence[str]) -> None:
        query = text(
            "SELECT table_name, engine FROM information_schema.tables"
            " WHERE table_schema = database() AND engine <> 'InnoDB'"
        )
        for table, engine in db.execute(query):
            if table in tables:
                raise ConfigurationError(
                    f"table {table} is in {engine}, which has no transactions",
                    f"run ALTER TABLE {table} ENGINE=InnoDB, or fill the tables again with --rebuild",
                )

    def check_swappable(self, db: Connection, tables: Sequence[str]) -> None:
        """Reject tables with a trigger, because `RENAME TABLE` cannot move them. This check comes before the shadow
        tables are filled, which may take hours.
        """
        query = text(
            "SELECT event_object_table, trigger_name FROM information_schema.triggers"
            " WHERE event_object_schema = database()"
        )
        for table, trigger in db.execute(query):
            if table in tables:
                raise ConfigurationError(
                    f"table {table} has trigger {trigger}: MariaDB cannot swap such a table",
                    f"run DROP TRIGGER {trigger}, and create it again after the swap",
                )

    def upsert(
        self, table: Table, key: Mapping[str, Any], new: Mapping[str, Any], change: Mapping[str, Any]
    ) -> Executable:
        return mysql.insert(table).values(**key, **new).on_duplicate_key_update(dict(change))

    def shadow_address(self, database: DatabaseAddress, projection: str) -> DatabaseAddress:
        name = f"{make_url(database.url).database}-{projection}-new"
        if len(name) > _MAX_NAME:
            raise ConfigurationError(
                f"the name of database {name} has more than {_MAX_NAME} characters",
                "shadow tables need this database: give the projection's file a shorter name",
            )
        return database._replace(schema=name)

    def drop_schema(self, db: Connection, schema: str) -> None:
        db.execute(text(f"DROP SCHEMA IF EXISTS {quoted(db, schema)}"))

    @contextmanager
    def preparation(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Begin]:
        """Take the exclusive lock, and complete an interrupted table swap first."""
        with exclusive_session(engine, projection, new.lock_timeout) as db:
            check_server(db)
            self._complete_swap(db, projection, str(new.schema))
            self.check_tables(db, list(CONTROL.tables))
            db.commit()
            yield partial(_transaction, db)

    @contextmanager
    def table_swap(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        with exclusive_session(engine, projection, new.lock_timeout) as db:
            self._complete_swap(db, projection, str(new.schema))  # if the response to RENAME was lost
            db.commit()
            yield db

    def swap_tables(self, db: Connection, swap: TableSwap) -> None:
        of_projection = POSITIONS.c.projection == swap.projection
        db.execute(update(POSITIONS).where(of_projection).values(owner=swap.owner))
        db.commit()
        rename_tables(db, swap)
        self._complete_swap(db, swap.projection, swap.schema)

    def _complete_swap(self, db: Connection, projection: str, schema: str) -> None:
        """Do step 3 if it is pending, and drop the schema of the shadow tables."""
        if not inspect(db).has_table(_ARRIVED, schema=schema):
            return
        arrived = POSITIONS.to_metadata(MetaData(), schema=schema, name=_ARRIVED)
        if db.execute(select(arrived).with_for_update()).all():
            swap_control_rows(db, projection, arrived)
            db.execute(delete(arrived))
        db.commit()
        self.drop_schema(db, schema)


@contextmanager
def _transaction(db: Connection) -> Iterator[Connection]:
    with db.begin():
        yield db


def _reject_implicit_commit(db: Connection, _cursor: object, statement: str, *_: object) -> None:
    if TRANSACTION_GUARD in db.info and session.commits_implicitly(statement):
        raise RuntimeError(
            f"{' '.join(statement.split()[:2])} ends the transaction in MariaDB, which holds the projection's position"
        )


def check_server(db: Connection) -> None:
    """Raise `ConfigurationError` for a release whose `RENAME TABLE` is not atomic in a crash."""
    version = db.dialect.server_version_info or ()
    if version[:2] < _MIN_VERSION:
        raise ConfigurationError(
            f"MariaDB {'.'.join(map(str, version))} may rename only some of several tables if it crashes",
            "use MariaDB 10.6 or newer, PostgreSQL, or SQLite",
        )


@contextmanager
def exclusive_session(engine: Engine, projection: str, timeout: float) -> Iterator[Connection]:
    """Yield the only session that prepares or swaps the tables of a projection; other sessions wait for its lock.

    Raises `OperationalError` after `timeout` seconds.
    """
    from pymysql.err import OperationalError as DriverError

    with engine.connect() as db:
        db.detach()  # the session is closed at the end, which releases the lock
        subject = f"{engine.url.database}/{projection}"
        lock = f"cqrs-{hashlib.sha256(subject.encode()).hexdigest()[:32]}"
        if db.execute(select(func.get_lock(lock, timeout))).scalar() != 1:
            lock_error = DriverError(1205, f"another run prepares {projection}")
            raise OperationalError("GET_LOCK", None, lock_error)
        db.commit()
        yield db


def rename_tables(db: Connection, swap: TableSwap) -> None:
    """Do step 2, in one statement."""
    live_schema, shadow_schema = str(db.engine.url.database), swap.schema
    moves = [
        ((live_schema, table), (shadow_schema, f"{_OLD}{number}"))
        for number, table in enumerate(_existing_tables(db, swap.old))
    ]
    moves += [((shadow_schema, table), (live_schema, table)) for table in swap.new]
    moves += [((shadow_schema, POSITIONS.name), (shadow_schema, _ARRIVED))]
    statements = [f"{_qualified(db, *source)} TO {_qualified(db, *target)}" for source, target in moves]
    db.execute(text(f"SET lock_wait_timeout = {RENAME_TIMEOUT}"))
    db.execute(text(f"RENAME TABLE {', '.join(statements)}"))
    db.commit()


def _existing_tables(db: Connection, tables: Iterable[str]) -> list[str]:
    inspector = inspect(db)
    return [table for table in tables if inspector.has_table(table)]


def _qualified(db: Connection, schema: str, table: str) -> str:
    return f"{quoted(db, schema)}.{quoted(db, table)}"
