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


def made_metadata(loaded: LoadedProjection, engine: Engine) -> MetaData:
    """Return the tables as they are created in this database."""
    return dialect_of(engine).adapted(loaded.projection.metadata)


def definition_digest(loaded: LoadedProjection, engine: Engine) -> str:
    """Return 16 hex digits that change with the tables, their indexes, and the events that the projection takes."""
    parts = list(loaded.takes)
    for table in made_metadata(loaded, engine).sorted_tables:
        parts.append(str(CreateTable(table).compile(engine)))
        parts += sorted(str(CreateIndex(index).compile(engine)) for index in table.indexes)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def read_columns(connection: Connection, tables: list[str]) -> Columns:
    """Return the current columns of these tables; a missing table has an empty list."""
    inspector = inspect(connection)
    found: Columns = {}
    for table in sorted(tables):
        if inspector.has_table(table):
            columns = inspector.get_columns(table)
            found[table] = sorted([column["name"], str(column["type"]).upper()] for column in columns)
        else:
            found[table] = []
    return found


def table_names(metadata: MetaData) -> list[str]:
    """Return the names of the tables; a table comes after the tables that it references."""
    return [table.name for table in metadata.sorted_tables]


def check_columns(connection: Connection, name: str, made: str) -> None:
    """Compare the tables with their columns at creation, `made` (JSON); raises `ConfigurationError` if they differ."""
    expected: Columns = json.loads(made)
    found = read_columns(connection, list(expected))
    for table, columns in expected.items():
        if found[table] == columns:
            continue
        lost = [column for column, _ in columns if column not in {other for other, _ in found[table]}]
        what = f"it has no column {lost[0]!r}" if lost else "its columns are not those it was made with"
        raise ConfigurationError(
            f"somebody changed table {table}: {what if found[table] else 'it is gone'}",
            f"fill it again: cqrs project {name} --rebuild",
        )
    dialect_of(connection).check_tables(connection, list(expected))
