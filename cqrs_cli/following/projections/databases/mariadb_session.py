"""Strict MariaDB sessions, the meaning of MariaDB's error codes, and the statements that commit implicitly."""

import os
import re
from pathlib import Path
from typing import Any

#: SQLAlchemy's name of the driver, PyMySQL. `rowcount` is the number of matched rows, not of changed rows.
DRIVER = "mariadb+pymysql"

#: The option file of MariaDB's client programs. It may contain a password.
_OPTION_FILE = Path("~/.my.cnf")

#: Attribute of a connection with the maximum number of bytes in a statement.
_LIMIT_ATTRIBUTE = "cqrs_limit"

#: Codes of temporary errors: record changed, lock wait timeout, deadlock, interrupted.
RETRY_CODES = {1020, 1205, 1213, 1317}

#: Codes of a server that is unavailable, or accepts no writes: full disk, too many connections, shutdown, full table,
#: read-only server, read-only transaction, killed, no connection, connection lost.
UNAVAILABLE_CODES = {1021, 1040, 1053, 1114, 1203, 1290, 1792, 1836, 1927, 2002, 2003, 2006, 2013, 2055}

#: Codes of an object that exists already: database, table, row.
ALREADY_EXISTS_CODES = {1007, 1050, 1062}

#: Codes of a missing object: database, table.
NOT_FOUND_CODES = {1049, 1146}

# Statements that commit the current transaction implicitly. CREATE and DROP of temporary tables do not commit.
_IMPLICIT_COMMIT = re.compile(
    r"\s*(ALTER|ANALYZE|BEGIN|COMMIT|CREATE(?!\s+(OR\s+REPLACE\s+)?TEMPORARY)|DROP(?!\s+TEMPORARY)|GRANT"
    r"|LOCK|OPTIMIZE|RENAME|REPAIR|REVOKE|ROLLBACK(?!\s+TO|\s+WORK\s+TO)|START|TRUNCATE|UNLOCK)\b",
    re.IGNORECASE,
)


def driver_arguments(timeout: float) -> dict[str, Any]:
    """Return PyMySQL's connection arguments. Times are UTC, and a value that does not fit its column is an error.

    A statement waits up to `timeout` seconds for the lock of a row or table.
    """
    timeouts = f"innodb_lock_wait_timeout = {round(timeout)}, lock_wait_timeout = {round(timeout)}"
    arguments: dict[str, Any] = {
        "sql_mode": "TRADITIONAL",
        "cursorclass": _bounded_cursor(),
        "init_command": f"SET time_zone = '+00:00', {timeouts}",
    }
    if "MYSQL_PWD" in os.environ:
        arguments["password"] = os.environ["MYSQL_PWD"]
    elif _OPTION_FILE.expanduser().exists():
        arguments["read_default_file"] = str(_OPTION_FILE.expanduser())
    return arguments


def _bounded_cursor() -> type:
    """Return a cursor class that rejects statements above the server's size limit.

    The server would close the connection instead, so the error would look like an unavailable server.
    """
    from pymysql.cursors import Cursor
    from pymysql.err import DataError

    class BoundedCursor(Cursor):  # type: ignore[misc]
        def _query(self, query: Any) -> Any:
            limit = getattr(self.connection, _LIMIT_ATTRIBUTE, None)
            if limit is not None and len(query) * 4 >= limit:
                size = len(query if isinstance(query, bytes) else query.encode("utf-8", "surrogateescape"))
                if size >= limit:
                    raise DataError(1153, f"a statement of {size} bytes: max_allowed_packet is {limit}")
            return super()._query(query)

    return BoundedCursor


def store_size_limit(connection: Any, _: object) -> None:
    """Store the server's size limit of statements in the connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        setattr(connection, _LIMIT_ATTRIBUTE, cursor.fetchone()[0])


def error_code(error: BaseException | None) -> int | None:
    """Return MariaDB's error code of a driver error; None for other errors."""
    if type(error).__module__.startswith("pymysql") and error is not None and error.args:
        return error.args[0] if isinstance(error.args[0], int) else None
    return None


def commits_implicitly(statement: str) -> bool:
    """Return True for a statement that ends the current transaction."""
    return _IMPLICIT_COMMIT.match(statement) is not None
