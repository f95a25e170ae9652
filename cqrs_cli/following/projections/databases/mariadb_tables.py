"""Adapts a projection's tables to MariaDB, so that a table definition has the same meaning in every database.

An explicit length, precision, MariaDB type or collation stays unchanged.
"""

from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    Float,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    Time,
    Unicode,
    UnicodeText,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import ColumnCollectionConstraint

from cqrs_cli.errors import ConfigurationError

#: Length of a text column that is part of a key and has no explicit length. Three such columns fit into one key.
_KEY_LENGTH = 255

#: A collation that compares as SQLite and PostgreSQL do: `a`, `A` and `a ` are three different texts.
COLLATION = "utf8mb4_nopad_bin"

# SQLAlchemy type → replacement, for types that are narrower in MariaDB than in other databases: its TEXT has 64 KiB,
# its DATETIME whole seconds, its FLOAT seven digits.
_WIDER_TYPES: dict[type, Any] = {
    Text: mysql.LONGTEXT(),
    UnicodeText: mysql.LONGTEXT(),
    LargeBinary: mysql.LONGBLOB(),
    DateTime: mysql.DATETIME(fsp=6),
    Time: mysql.TIME(fsp=6),
    Float: mysql.DOUBLE(),
}


def adapt_for_mariadb(metadata: MetaData) -> MetaData:
    """Return a copy for CREATE statements. Raises `ConfigurationError` for definitions that do not fit MariaDB."""
    copy = MetaData()
    for table in metadata.sorted_tables:
        _adapt_table(table.to_metadata(copy))
    return copy


def _adapt_table(table: Table) -> None:
    options = {name.lower(): value for name, value in table.kwargs.items()}
    if str(options.get("mariadb_engine", "InnoDB")).lower() != "innodb":
        raise ConfigurationError(
            f"table {table.name} has the engine {options['mariadb_engine']}, which has no transactions",
            "leave out mariadb_engine: the default is InnoDB",
        )
    table.kwargs["mariadb_engine"] = "InnoDB"
    if not options.keys() & {"mariadb_charset", "mariadb_collate", "mariadb_default_charset"}:
        table.kwargs["mariadb_charset"] = "utf8mb4"
        table.kwargs["mariadb_collate"] = COLLATION
    for constraint in table.foreign_key_constraints:
        constraint.name = None  # MariaDB chooses a name: the live table still uses the given name
    keys = _key_columns(table)
    for column in table.columns:
        column.type = _adapt_type(column, column.name in keys)


def _key_columns(table: Table) -> set[str]:
    """Return the names of columns in a key or an index."""
    lists: list[Any] = [index.columns for index in table.indexes]
    for constraint in table.constraints:
        if isinstance(constraint, ColumnCollectionConstraint) and not isinstance(constraint, CheckConstraint):
            lists.append(constraint.columns)
    return {column.name for columns in lists for column in columns}


def _adapt_type(column: Column[Any], is_in_key: bool) -> Any:
    column_type: Any = column.type
    if type(column_type) in (String, Unicode) and column_type.length is None:
        collation = column_type.collation
        return (
            mysql.VARCHAR(_KEY_LENGTH, collation=collation)
            if is_in_key
            else mysql.LONGTEXT(collation=collation)
        )
    if type(column_type) is Numeric and column_type.precision is None:
        raise ConfigurationError(
            f"column {column.table.name}.{column.name} is Numeric without a precision: MariaDB would store whole "
            "numbers",
            "give the column a precision: Numeric(18, 2)",
        )
    has_defaults = (
        getattr(column_type, "length", None) is None and getattr(column_type, "precision", None) is None
    )
    return (
        _WIDER_TYPES.get(type(column_type), column_type)
        if has_defaults and getattr(column_type, "collation", None) is None
        else column_type
    )
