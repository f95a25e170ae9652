"""Sessions of MariaDB that are as strict as projecting needs, what its errors mean, and which statements commit."""

import os
import re
from pathlib import Path
from typing import Any

#: SQLAlchemy's name of the driver: PyMySQL. It counts rows that were found, not those that were changed.
DRIVER = "mariadb+pymysql"

#: The file with a password, of MariaDB's own programs.
_OPTIONS = Path("~/.my.cnf")

#: The name of a connection's limit of bytes in a statement.
_LIMIT = "cqrs_limit"

#: Codes after which the same transaction may succeed: record changed, lock wait timeout, deadlock, interrupted.
AGAIN = {1020, 1205, 1213, 1317}

#: Codes of a server that is away: too many connections, shutdown, killed, no connection, it is gone or was lost.
AWAY = {1040, 1053, 1203, 1927, 2002, 2003, 2006, 2013, 2055}

#: Codes for what is there by now: database, table, row.
MADE = {1007, 1050, 1062}

#: No such database, no such table.
GONE = {1049, 1146}

# Statements that commit what was written before them. Of temporary tables there is nothing to commit.
_COMMITTING = re.compile(
    r"\s*(ALTER|ANALYZE|BEGIN|COMMIT|CREATE(?!\s+(OR\s+REPLACE\s+)?TEMPORARY)|DROP(?!\s+TEMPORARY)|GRANT"
    r"|LOCK|OPTIMIZE|RENAME|REPAIR|REVOKE|ROLLBACK(?!\s+TO|\s+WORK\s+TO)|START|TRUNCATE|UNLOCK)\b",
    re.IGNORECASE,
)


def driver_arguments(patience: float) -> dict[str, Any]:
    """The arguments of a connection: times are UTC, values that do not fit are errors.

    A statement waits for `patience` seconds for a row's lock, and for a table that is used.
    """
    waits = f"innodb_lock_wait_timeout = {round(patience)}, lock_wait_timeout = {round(patience)}"
    arguments: dict[str, Any] = {
        "sql_mode": "TRADITIONAL",
        "cursorclass": _bounded_cursor(),
        "init_command": f"SET time_zone = '+00:00', {waits}",
    }
    if "MYSQL_PWD" in os.environ:
        arguments["password"] = os.environ["MYSQL_PWD"]
    elif _OPTIONS.expanduser().exists():
        arguments["read_default_file"] = str(_OPTIONS.expanduser())
    return arguments


def _bounded_cursor() -> type:
    """A cursor that refuses what the server would: a server that breaks the connection looks like one that is away."""
    from pymysql.cursors import Cursor
    from pymysql.err import DataError

    class BoundedCursor(Cursor):  # type: ignore[misc]
        def _query(self, query: Any) -> Any:
            limit = getattr(self.connection, _LIMIT, None)
            if limit is not None and len(query) * 4 >= limit:
                size = len(query if isinstance(query, bytes) else query.encode("utf-8", "surrogateescape"))
                if size >= limit:
                    raise DataError(1153, f"a statement of {size} bytes: max_allowed_packet is {limit}")
            return super()._query(query)

    return BoundedCursor


def note_limit(connection: Any, _: object) -> None:
    """Keep the server's limit of a statement with its connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        setattr(connection, _LIMIT, cursor.fetchone()[0])


def code_of(error: BaseException | None) -> int | None:
    """MariaDB's number of an error that its driver raised."""
    if type(error).__module__.startswith("pymysql") and error is not None and error.args:
        return error.args[0] if isinstance(error.args[0], int) else None
    return None


def is_committing(statement: str) -> bool:
    """True for a statement that ends the transaction it stands in."""
    return _COMMITTING.match(statement) is not None
