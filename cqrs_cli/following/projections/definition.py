"""The tables of a projection: their definition as a digest, and as the database has them."""

import hashlib
import json

from sqlalchemy import Connection, Engine, MetaData, inspect
from sqlalchemy.schema import CreateIndex, CreateTable

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.load import LoadedProjection

#: Table → its columns with their types, as the database tells them.
Columns = dict[str, list[list[str]]]


def made_metadata(loaded: LoadedProjection, engine: Engine) -> MetaData:
    """The tables as they are made in this database."""
    return dialect_of(engine).adapted(loaded.projection.metadata)


def definition_digest(loaded: LoadedProjection, engine: Engine) -> str:
    """16 hex digits that change with the tables, their indexes and the events that are taken."""
    parts = list(loaded.takes)
    for table in made_metadata(loaded, engine).sorted_tables:
        parts.append(str(CreateTable(table).compile(engine)))
        parts += sorted(str(CreateIndex(index).compile(engine)) for index in table.indexes)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def read_columns(connection: Connection, tables: list[str]) -> Columns:
    """The columns of these tables as they are now; a table that is missing has none."""
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
    """The names of the tables, those that others refer to first."""
    return [table.name for table in metadata.sorted_tables]


def check_columns(connection: Connection, name: str, made: str) -> None:
    """Compare the tables with what they were `made` as (JSON); raises `ConfigurationError` for one that was changed."""
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
