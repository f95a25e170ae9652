"""A row that is made or changed, by one statement: for rows that several partitions feed."""

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
    """Make a row of `key` and `new`, or make this `change` to the row that has the key.

    `key` names the columns of the primary key. A change may use what is there: `{"n": table.c.n + 1}`.
    """
    from cqrs_cli.following.projections.databases.known import dialect_of

    db.execute(dialect_of(db).upsert(table, key, new, change))
