"""The definition of a projection's tables: its digest, and a comparison with the database."""

import hashlib
import json

from sqlalchemy import Connection, Engine, MetaData, inspect
from sqlalchemy.schema import CreateIndex, CreateTable

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.load import LoadedProjection

#: Table → its columns as [name, type], as the database reports them, such as `{"orders": [["id", "TEXT"]]}`.
Columns = dict[str, list[list[str]]]


def database_metadata(loaded_projection: LoadedProjection, engine: Engine) -> MetaData:
    """Return the tables as they are created in this database."""
    return dialect_of(engine).adapt_metadata(loaded_projection.projection.metadata)


def definition_digest(loaded_projection: LoadedProjection, engine: Engine) -> str:
    """Return 16 hex digits that change with the tables, their indexes, and the event types of the projection."""
    parts = list(loaded_projection.event_names)
    for table in database_metadata(loaded_projection, engine).sorted_tables:
        parts.append(str(CreateTable(table).compile(engine)))
        parts += sorted(str(CreateIndex(index).compile(engine)) for index in table.indexes)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def read_columns(connection: Connection, tables: list[str]) -> Columns:
    """Return the current columns of these tables; a missing table has an empty list."""
    inspector = inspect(connection)
    columns_of: Columns = {}
    for table in sorted(tables):
        if inspector.has_table(table):
            columns = inspector.get_columns(table)
            columns_of[table] = sorted([column["name"], str(column["type"]).upper()] for column in columns)
        else:
            columns_of[table] = []
    return columns_of


def table_names(metadata: MetaData) -> list[str]:
    """Return the names of the tables; a table comes after the tables that it references."""
    return [table.name for table in metadata.sorted_tables]


def check_columns(connection: Connection, name: str, recorded_columns: str) -> None:
    """Compare the current columns with `recorded_columns`, the JSON of the tables' columns at creation.

    Raises `ConfigurationError` if they differ.
    """
    expected: Columns = json.loads(recorded_columns)
    current = read_columns(connection, list(expected))
    for table, columns in expected.items():
        if current[table] == columns:
            continue
        missing_columns = [
            column for column, _ in columns if column not in {other for other, _ in current[table]}
        ]
        problem = (
            f"column {missing_columns[0]!r} is missing"
            if missing_columns
            else "its columns differ from the created columns"
        )
        raise ConfigurationError(
            f"table {table} was changed: {problem if current[table] else 'it is missing'}",
            f"fill the tables again: cqrs project {name} --rebuild",
        )
    dialect_of(connection).check_tables(connection, list(expected))
