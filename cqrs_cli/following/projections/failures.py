"""Classifies database errors by their retry policy. Each dialect classifies the errors of its own driver."""

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cqrs_cli.following.projections.databases.dialect import RetryPolicy
from cqrs_cli.following.projections.databases.known import dialect_of_error


def retry_policy(error: BaseException) -> RetryPolicy:
    """Return the retry policy.

    `again`: retry the batch at once; `wait`: the database is unavailable; `none`: a retry does not help.
    """
    if isinstance(error, PoolTimeout):
        return "wait"
    if not isinstance(error, DBAPIError) or error.orig is None:
        return "none"
    dialect = dialect_of_error(error.orig)
    policy: RetryPolicy = "none" if dialect is None else dialect.retry_policy(error.orig)
    return "wait" if policy == "none" and error.connection_invalidated else policy


def is_already_exists(error: Exception) -> bool:
    """Return True if the error reports that the object to create exists already."""
    cause = _cause(error)
    dialect = dialect_of_error(cause)
    return dialect is not None and dialect.is_already_exists(cause)


def is_not_found(error: Exception) -> bool:
    """Return True if the error reports a missing database or table.

    Only MariaDB raises such errors when the tables of a missing schema are listed. Other databases return no tables,
    or the tables of another schema.
    """
    cause = _cause(error)
    dialect = dialect_of_error(cause)
    return dialect is not None and dialect.is_not_found(cause)


def error_text(error: BaseException) -> str:
    """Return the first line of the database's error text, without the statement that SQLAlchemy appends."""
    cause = _cause(error)
    dialect = dialect_of_error(cause)
    text = str(cause) if dialect is None else dialect.error_text(cause)
    return (text.strip().splitlines() or [type(cause).__name__])[0][:300]


def _cause(error: BaseException) -> BaseException:
    """Return the driver's error."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
