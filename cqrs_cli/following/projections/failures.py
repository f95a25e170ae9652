"""Classifies database errors by their retry policy. Each dialect classifies the errors of its own driver."""

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cqrs_cli.following.projections.databases.dialect import Remedy
from cqrs_cli.following.projections.databases.known import dialect_that_raised


def remedy(error: Exception) -> Remedy:
    """Return the retry policy.

    `again`: retry the batch at once; `wait`: the database is unavailable; `none`: a retry does not help.
    """
    if isinstance(error, PoolTimeout):
        return "wait"
    if not isinstance(error, DBAPIError) or error.orig is None:
        return "none"
    dialect = dialect_that_raised(error.orig)
    found: Remedy = "none" if dialect is None else dialect.remedy(error.orig)
    return "wait" if found == "none" and error.connection_invalidated else found


def made_meanwhile(error: Exception) -> bool:
    """Return True if the object to create exists by now."""
    cause = _cause(error)
    dialect = dialect_that_raised(cause)
    return dialect is not None and dialect.is_made(cause)


def place_is_gone(error: Exception) -> bool:
    """Return True if the error reports a missing database or table, as in MariaDB.

    Other databases raise no such error: they show the tables of another schema, or no tables.
    """
    cause = _cause(error)
    dialect = dialect_that_raised(cause)
    return dialect is not None and dialect.is_gone(cause)


def words(error: BaseException) -> str:
    """Return the first line of the database's error text, without the statement that SQLAlchemy appends."""
    cause = _cause(error)
    dialect = dialect_that_raised(cause)
    said = str(cause) if dialect is None else dialect.words(cause)
    return (said.strip().splitlines() or [type(cause).__name__])[0][:300]


def _cause(error: BaseException) -> BaseException:
    """Return the driver's error."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
