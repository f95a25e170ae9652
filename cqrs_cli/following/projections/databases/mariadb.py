"""MariaDB: strict connections, and a table swap in three steps, because each DDL statement commits its transaction.

1. A transaction makes the run that filled the shadow tables the owner of the live positions, so that the older run
   writes nothing more.
2. One `RENAME TABLE`, which is atomic even in a crash, moves the live tables away and the shadow tables into place. It
   also renames the new positions to `cqrs_arrived`.
3. A transaction moves the rows of `cqrs_arrived` into the positions table.

The preparation of the next run completes step 3 first if it finds `cqrs_arrived`. Until then the positions lag the
tables, so no client that waits for an event returns too early, and no run writes, because the owner is still the owner
of step 1. One session does all steps, under a lock that ends with the session. So no other run can start between two
steps, and no step can happen late.
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
from cqrs_cli.following.projections.databases.control import CONTROL, POSITIONS, adopt_control
from cqrs_cli.following.projections.databases.dialect import KEPT, Begin, Dialect, Exchange, Remedy, quoted
from cqrs_cli.following.projections.databases.mariadb_tables import adapt_tables

#: The first release whose `RENAME TABLE` is atomic in a crash.
_OLDEST = (10, 6)

#: The positions of the new tables after step 2, and the name prefix of the replaced tables, which are numbered.
_ARRIVED = "cqrs_arrived"
_OLD = "cqrs_old_"

#: Seconds that the table swap waits for open readers; new readers queue after the swap during this time.
TABLE_WAIT = 5

#: Maximum length of a database name.
_LONGEST = 64


class MariaDb(Dialect):
    """MariaDB; shadow tables are in a separate database."""

    name = "mariadb"
    driver = session.DRIVER
    module = "pymysql"
    example = "mariadb://…"
    password = "put it into ~/.my.cnf, or MYSQL_PWD"

    def checked(self, url: URL, root: Path, flag: str) -> URL:
        if not url.database:
            raise UsageError(
                f"{flag}: MariaDB needs the name of a database", "write mariadb://shop@db-1/shop"
            )
        return url

    def open(self, place: DatabaseAddress) -> Engine:
        url = make_url(place.url)
        engine = create_engine(
            url.set(database=place.schema or url.database),
            connect_args=session.driver_arguments(place.patience),
            pool_size=100,
            isolation_level="READ COMMITTED",  # PostgreSQL's default: no gap locks
        )
        event.listen(engine, "connect", session.note_limit)
        event.listen(engine, "handle_error", self._note_ending)
        event.listen(engine, "before_cursor_execute", _refuse_committing)
        return engine

    def _note_ending(self, context: ExceptionContext) -> None:
        """Record an error that ended the transaction (a deadlock): later rows would commit without the position."""
        db, error = context.connection, context.sqlalchemy_exception
        if db is None or error is None or self.remedy(context.original_exception) != "again":
            return  # a connection that fails while it is opened has no `info` yet
        if not db.invalidated and KEPT in db.info:
            db.info[KEPT] = error

    def remedy(self, error: BaseException) -> Remedy:
        code = session.code_of(error)
        return "again" if code in session.AGAIN else "wait" if code in session.AWAY else "none"

    def is_made(self, error: BaseException) -> bool:
        return session.code_of(error) in session.MADE

    def is_gone(self, error: BaseException) -> bool:
        return session.code_of(error) in session.GONE

    def words(self, error: BaseException) -> str:
        return str(error.args[-1] if session.code_of(error) else error)

    def adapted(self, metadata: MetaData) -> MetaData:
        return adapt_tables(metadata)

    def check_tables(self, db: Connection, tables: Sequence[str]) -> None:
        query = text(
            "SELECT table_name, engine FROM information_schema.tables"
            " WHERE table_schema = database() AND engine <> 'InnoDB'"
        )
        for table, engine in db.execute(query):
            if table in tables:
                raise ConfigurationError(
                    f"table {table} is in {engine}, which has no transactions",
                    f"ALTER TABLE {table} ENGINE=InnoDB, or fill it again with --rebuild",
                )

    def check_exchangeable(self, db: Connection, tables: Sequence[str]) -> None:
        """Reject tables with a trigger, which `RENAME TABLE` cannot move, before shadow tables are filled for hours."""
        query = text(
            "SELECT event_object_table, trigger_name FROM information_schema.triggers"
            " WHERE event_object_schema = database()"
        )
        for table, trigger in db.execute(query):
            if table in tables:
                raise ConfigurationError(
                    f"table {table} has trigger {trigger}: MariaDB does not exchange such a table",
                    f"DROP TRIGGER {trigger}, and make it again when the new tables are in place",
                )

    def upsert(
        self, table: Table, key: Mapping[str, Any], new: Mapping[str, Any], change: Mapping[str, Any]
    ) -> Executable:
        return mysql.insert(table).values(**key, **new).on_duplicate_key_update(dict(change))

    def beside(self, place: DatabaseAddress, projection: str) -> DatabaseAddress:
        name = f"{make_url(place.url).database}-{projection}-new"
        if len(name) > _LONGEST:
            raise ConfigurationError(
                f"the name of database {name} has more than {_LONGEST} characters",
                "new tables are filled there: give the projection's file a shorter name",
            )
        return place._replace(schema=name)

    def drop(self, db: Connection, schema: str) -> None:
        db.execute(text(f"DROP SCHEMA IF EXISTS {quoted(db, schema)}"))

    @contextmanager
    def preparing(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Begin]:
        """Take the exclusive lock, and complete an interrupted table swap first."""
        with exclusively(engine, projection, new.patience) as db:
            check_server(db)
            self._finish(db, projection, str(new.schema))
            self.check_tables(db, list(CONTROL.tables))
            db.commit()
            yield partial(_transaction, db)

    @contextmanager
    def exchanging(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        with exclusively(engine, projection, new.patience) as db:
            self._finish(db, projection, str(new.schema))  # the response to RENAME was lost
            db.commit()
            yield db

    def exchange(self, db: Connection, exchange: Exchange) -> None:
        mine = POSITIONS.c.projection == exchange.projection
        db.execute(update(POSITIONS).where(mine).values(owner=exchange.owner))
        db.commit()
        rename_tables(db, exchange)
        self._finish(db, exchange.projection, exchange.schema)

    def _finish(self, db: Connection, projection: str, schema: str) -> None:
        """Do step 3 if it is pending, and drop what remains."""
        if not inspect(db).has_table(_ARRIVED, schema=schema):
            return
        arrived = POSITIONS.to_metadata(MetaData(), schema=schema, name=_ARRIVED)
        if db.execute(select(arrived).with_for_update()).all():
            adopt_control(db, projection, arrived)
            db.execute(delete(arrived))
        db.commit()
        self.drop(db, schema)


@contextmanager
def _transaction(db: Connection) -> Iterator[Connection]:
    with db.begin():
        yield db


def _refuse_committing(db: Connection, _cursor: object, statement: str, *_: object) -> None:
    if KEPT in db.info and session.is_committing(statement):
        raise RuntimeError(
            f"{' '.join(statement.split()[:2])} ends the transaction in MariaDB, which holds the projection's position"
        )


def check_server(db: Connection) -> None:
    """Raise `ConfigurationError` for a release whose `RENAME TABLE` is not atomic in a crash."""
    version = db.dialect.server_version_info or ()
    if version[:2] < _OLDEST:
        raise ConfigurationError(
            f"MariaDB {'.'.join(map(str, version))} may rename some of several tables and not others in a crash",
            "use MariaDB 10.6 or newer, PostgreSQL, or SQLite",
        )


@contextmanager
def exclusively(engine: Engine, projection: str, patience: float) -> Iterator[Connection]:
    """Yield the only session that prepares or swaps the tables of a projection; other sessions wait for its lock.

    Raises `OperationalError` after `patience` seconds.
    """
    from pymysql.err import OperationalError as DriverError

    with engine.connect() as db:
        db.detach()  # the session is closed at the end, which releases the lock
        place = f"{engine.url.database}/{projection}"
        lock = f"cqrs-{hashlib.sha256(place.encode()).hexdigest()[:32]}"
        if db.execute(select(func.get_lock(lock, patience))).scalar() != 1:
            busy = DriverError(1205, f"another run prepares {projection}")
            raise OperationalError("GET_LOCK", None, busy)
        db.commit()
        yield db


def rename_tables(db: Connection, exchange: Exchange) -> None:
    """Do step 2, in one statement."""
    home, beside = str(db.engine.url.database), exchange.schema
    moves = [((home, table), (beside, f"{_OLD}{n}")) for n, table in enumerate(_existing(db, exchange.old))]
    moves += [((beside, table), (home, table)) for table in exchange.new]
    moves += [((beside, POSITIONS.name), (beside, _ARRIVED))]
    statements = [f"{_full(db, *one)} TO {_full(db, *other)}" for one, other in moves]
    db.execute(text(f"SET lock_wait_timeout = {TABLE_WAIT}"))
    db.execute(text(f"RENAME TABLE {', '.join(statements)}"))
    db.commit()


def _existing(db: Connection, tables: Iterable[str]) -> list[str]:
    inspector = inspect(db)
    return [table for table in tables if inspector.has_table(table)]


def _full(db: Connection, schema: str, table: str) -> str:
    return f"{quoted(db, schema)}.{quoted(db, table)}"
