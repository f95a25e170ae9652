"""`cqrs.upsert`: inserts or updates a row in one statement, for rows that events of several partitions update."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


def upsert(
    db: "Connection",
    table: "Table",
    key: Mapping[str, Any],
    new: Mapping[str, Any],
    change: Mapping[str, Any],
) -> None:
    """Insert a row of `key` and `new`, or apply `change` to the existing row with this key.

    `key` has the columns of the primary key. `change` may refer to the existing row: `{"n": table.c.n + 1}`.
    """
    from cqrs_cli.following.projections.databases.known import dialect_of

    db.execute(dialect_of(db).upsert(table, key, new, change))
