"""MariaDB: strict connections, and an exchange of tables in which each statement about tables ends its transaction.

1. A transaction gives the live positions to the run that filled the new tables: the older run writes no more.
2. One `RENAME TABLE`, which is whole after any crash: the live tables go away, the new ones come, and the new positions
   are called `cqrs_arrived` from then on.
3. A transaction moves the rows of `cqrs_arrived` into the positions.

The next run to be prepared does 3 first if it finds `cqrs_arrived`. Until then the positions are behind the tables, so
nobody who waits for an event is told too early, and their owner is the one of 1, so nobody writes. All of this is done
by one session, with a lock that it loses when it ends: no other run can begin between two steps, nor a step come late.
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

#: The first release whose `RENAME TABLE` is whole after a crash.
_OLDEST = (10, 6)

#: The new positions once the new tables are in place, and the tables that were there before, numbered.
_ARRIVED = "cqrs_arrived"
_OLD = "cqrs_old_"

#: Seconds that the exchange waits for readers, behind which others wait.
TABLE_WAIT = 5

#: The longest name of a database.
_LONGEST = 64


class MariaDb(Dialect):
    """New tables are filled in a database beside the live one."""

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
            isolation_level="READ COMMITTED",  # PostgreSQL's: no gap between rows is locked
        )
        event.listen(engine, "connect", session.note_limit)
        event.listen(engine, "handle_error", self._note_ending)
        event.listen(engine, "before_cursor_execute", _refuse_committing)
        return engine

    def _note_ending(self, context: ExceptionContext) -> None:
        """A deadlock is the end of the transaction: what comes then would be written without the position."""
        db, error = context.connection, context.sqlalchemy_exception
        if db is None or error is None or self.remedy(context.original_exception) != "again":
            return  # a connection that is lost while it is made has no `info` yet
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
        """A table with a trigger cannot be moved away: that is said before new ones are filled for hours."""
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
        """The only such block: an exchange that was cut off is ended before it."""
        with exclusively(engine, projection, new.patience) as db:
            check_server(db)
            self._finish(db, projection, str(new.schema))
            self.check_tables(db, list(CONTROL.tables))
            db.commit()
            yield partial(_transaction, db)

    @contextmanager
    def exchanging(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        with exclusively(engine, projection, new.patience) as db:
            self._finish(db, projection, str(new.schema))  # the answer to the renaming was lost
            db.commit()
            yield db

    def exchange(self, db: Connection, exchange: Exchange) -> None:
        mine = POSITIONS.c.projection == exchange.projection
        db.execute(update(POSITIONS).where(mine).values(owner=exchange.owner))
        db.commit()
        rename_tables(db, exchange)
        self._finish(db, exchange.projection, exchange.schema)

    def _finish(self, db: Connection, projection: str, schema: str) -> None:
        """Step 3, if there is something to move, and what is left to drop."""
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
    """Raise `ConfigurationError` for a release whose tables cannot be exchanged safely."""
    version = db.dialect.server_version_info or ()
    if version[:2] < _OLDEST:
        raise ConfigurationError(
            f"MariaDB {'.'.join(map(str, version))} may rename some of several tables and not others in a crash",
            "use MariaDB 10.6 or newer, PostgreSQL, or SQLite",
        )


@contextmanager
def exclusively(engine: Engine, projection: str, patience: float) -> Iterator[Connection]:
    """The one session that prepares or exchanges the tables of a projection; others wait for it."""
    from pymysql.err import OperationalError as DriverError

    with engine.connect() as db:
        db.detach()  # closed at the end, and the lock with it
        place = f"{engine.url.database}/{projection}"
        lock = f"cqrs-{hashlib.sha256(place.encode()).hexdigest()[:32]}"
        if db.execute(select(func.get_lock(lock, patience))).scalar() != 1:
            busy = DriverError(1205, f"another run prepares {projection}")
            raise OperationalError("GET_LOCK", None, busy)
        db.commit()
        yield db


def rename_tables(db: Connection, exchange: Exchange) -> None:
    """Step 2, in one statement."""
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
