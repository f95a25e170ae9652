"""Errors of a database, sorted by what to do about them. Each database says it of its own driver's errors."""

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cqrs_cli.following.projections.databases.dialect import Remedy
from cqrs_cli.following.projections.databases.known import dialect_that_raised


def remedy(error: Exception) -> Remedy:
    """`again`: the batch again, at once; `wait`: the database is away; `none`: somebody must correct something."""
    if isinstance(error, PoolTimeout):
        return "wait"
    if not isinstance(error, DBAPIError) or error.orig is None:
        return "none"
    dialect = dialect_that_raised(error.orig)
    found: Remedy = "none" if dialect is None else dialect.remedy(error.orig)
    return "wait" if found == "none" and error.connection_invalidated else found


def made_meanwhile(error: Exception) -> bool:
    """True if what was to be made is there by now."""
    cause = _cause(error)
    dialect = dialect_that_raised(cause)
    return dialect is not None and dialect.is_made(cause)


def place_is_gone(error: Exception) -> bool:
    """True if the database says that there is no such place; others show tables of another place, or none."""
    cause = _cause(error)
    dialect = dialect_that_raised(cause)
    return dialect is not None and dialect.is_gone(cause)


def words(error: BaseException) -> str:
    """The first line of what a database said, without the statement that SQLAlchemy adds."""
    cause = _cause(error)
    dialect = dialect_that_raised(cause)
    said = str(cause) if dialect is None else dialect.words(cause)
    return (said.strip().splitlines() or [type(cause).__name__])[0][:300]


def _cause(error: BaseException) -> BaseException:
    """The driver's error."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
