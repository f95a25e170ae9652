"""The exchange of tables in MariaDB, where each statement about tables ends its transaction.

1. A transaction gives the live positions to the run that filled the new tables: the older run writes no more.
2. One `RENAME TABLE`, which is whole after any crash: the live tables go away, the new ones come, and the new positions
   are called `cqrs_arrived` from then on.
3. A transaction moves the rows of `cqrs_arrived` into the positions.

Whoever prepares a run does 3 first if it finds `cqrs_arrived`. Until then the positions are behind the tables, so
nobody who waits for an event is told too early, and their owner is the one of 1, so nobody writes. All of this is done
by one session, with a lock that it loses when it ends: no other run can begin between two steps, nor a step come late.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, MetaData, Table, func, inspect, select, text
from sqlalchemy.exc import OperationalError

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.mariadb.connecting import LOCK_WAIT

#: The new positions once the new tables are in place, and the tables that were there before, numbered.
_ARRIVED = "cqrs_arrived"
_OLD = "cqrs_old_"

#: Seconds that the exchange waits for readers, behind which others wait.
_TABLE_WAIT = 5

#: What a name may have.
_LONGEST = 64


@contextmanager
def exclusively(engine: Engine, projection: str) -> Iterator[Connection]:
    """The one session that prepares or exchanges the tables of a projection; others wait for it."""
    from pymysql.err import OperationalError as DriverError

    with engine.connect() as db:
        db.detach()  # closed at the end, and the lock with it
        place = f"{engine.url.database}/{projection}"
        lock = f"cqrs-{hashlib.sha256(place.encode()).hexdigest()[:32]}"
        if db.execute(select(func.get_lock(lock, LOCK_WAIT))).scalar() != 1:
            busy = DriverError(1205, f"another run prepares {projection}")
            raise OperationalError("GET_LOCK", None, busy)
        db.commit()
        yield db


def beside_name(database: str, projection: str) -> str:
    """The database in which new tables are filled. Raises `ConfigurationError` for one too long."""
    name = f"{database}-{projection}-new"
    if len(name) > _LONGEST:
        raise ConfigurationError(
            f"the name of database {name} has more than {_LONGEST} characters",
            "new tables are filled there: give the projection's file a shorter name",
        )
    return name


def check_triggers(db: Connection, tables: Iterable[str]) -> None:
    """Raise `ConfigurationError` for a table that could not be moved away: before new ones are filled for hours."""
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


def rename_tables(
    db: Connection, beside: str, old: Iterable[str], new: Iterable[str], positions: str
) -> None:
    """Step 2, in one statement."""
    home = str(db.engine.url.database)
    inspector = inspect(db)
    there = [table for table in old if inspector.has_table(table)]
    moves = [((home, table), (beside, f"{_OLD}{number}")) for number, table in enumerate(there)]
    moves += [((beside, table), (home, table)) for table in new]
    moves += [((beside, positions), (beside, _ARRIVED))]
    quote = db.dialect.identifier_preparer.quote
    statements = [f"{quote(a)}.{quote(one)} TO {quote(b)}.{quote(other)}" for (a, one), (b, other) in moves]
    db.execute(text(f"SET lock_wait_timeout = {_TABLE_WAIT}"))
    db.execute(text(f"RENAME TABLE {', '.join(statements)}"))
    db.commit()


def arrived_positions(db: Connection, beside: str, positions: Table) -> Table | None:
    """The positions that step 3 has to move; None if there is no such table."""
    if not inspect(db).has_table(_ARRIVED, schema=beside):
        return None
    return positions.to_metadata(MetaData(), schema=beside, name=_ARRIVED)
