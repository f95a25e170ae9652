"""Errors of a database, sorted by what to do about them."""

from typing import Literal

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cqrs_cli.following.projections.mariadb import connecting as mariadb

#: SQLSTATEs after which the same transaction may succeed: serialization failure, deadlock, lock not available.
_PASSING = {"40001", "40P01", "55P03"}

#: Beginnings of SQLSTATEs of a server that is not there: connection exception, operator intervention, too many of them.
_AWAY = ("08", "57P", "53300")

#: What SQLite says when another writer was faster.
_LOCKED = ("database is locked", "database table is locked", "database schema is locked")

#: Two runs that made the same tables at once: the slower one finds them. SQLSTATEs of PostgreSQL.
_MADE = {"42P06", "42P07", "42710", "23505"}

Remedy = Literal["again", "wait", "none"]


def remedy(error: Exception) -> Remedy:
    """`again`: the batch again, at once; `wait`: the database is away; `none`: somebody must correct something."""
    if isinstance(error, PoolTimeout):
        return "wait"
    if not isinstance(error, DBAPIError):
        return "none"
    state, code = str(getattr(error.orig, "sqlstate", None) or ""), mariadb.code_of(error.orig)
    if state in _PASSING or code in mariadb.AGAIN or str(error.orig).startswith(_LOCKED):
        return "again"
    if error.connection_invalidated or state.startswith(_AWAY) or code in mariadb.AWAY:
        return "wait"
    unreached = isinstance(error, (OperationalError, InterfaceError)) and not state
    return "wait" if unreached and error.orig is not None and _is_silent(error.orig) else "none"


def made_meanwhile(error: Exception) -> bool:
    """True if what was to be made is there by now."""
    cause = getattr(error, "orig", None)
    if mariadb.code_of(cause) in mariadb.MADE:
        return True
    return getattr(cause, "sqlstate", None) in _MADE or "already exists" in str(cause)


def place_is_gone(error: Exception) -> bool:
    """True if MariaDB has no such database or table; others show tables of another place, or none."""
    return mariadb.code_of(getattr(error, "orig", None)) in mariadb.GONE


def words(error: BaseException) -> str:
    """The first line of what a database said, without the statement that SQLAlchemy adds."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said = cause.args[-1] if mariadb.code_of(cause) else cause
    return (str(said).strip().splitlines() or [type(cause).__name__])[0][:300]


def _is_silent(cause: BaseException) -> bool:
    """True for a PostgreSQL that did not answer, or is not ready to. A login that it refuses is refused the next time,
    too: psycopg gives no SQLSTATE for either.
    """
    said = str(cause)
    passing = any(
        text in said for text in ("starting up", "shutting down", "too many clients", "recovery mode")
    )
    return type(cause).__module__.startswith("psycopg") and ("FATAL" not in said or passing)
