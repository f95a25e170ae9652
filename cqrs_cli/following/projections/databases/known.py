"""The list of all databases that projections fill, and lookups in this list."""

from sqlalchemy import Connection, Engine, make_url

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import Dialect
from cqrs_cli.following.projections.databases.duckdb import DuckDb
from cqrs_cli.following.projections.databases.mariadb import MariaDb
from cqrs_cli.following.projections.databases.postgresql import Postgres
from cqrs_cli.following.projections.databases.sqlite import Sqlite

#: Add a new database as a file in this folder and an entry here.
DIALECTS: tuple[Dialect, ...] = (
    Sqlite(),
    Postgres(),
    MariaDb(),
    DuckDb(),
)


def find_dialect(name: str) -> Dialect | None:
    """Return the dialect whose URLs begin with this name, with or without a driver; None for an unknown name."""
    return next((dialect for dialect in DIALECTS if name in (dialect.name, dialect.driver)), None)


def dialect_of(database: DatabaseAddress | Engine | Connection) -> Dialect:
    """Return the dialect of an address from `parse_database`, or of any engine or connection."""
    match database:
        case DatabaseAddress():
            name = make_url(database.url).drivername
        case _:
            name = database.dialect.name
    dialect = find_dialect(name)
    assert dialect is not None, f"no dialect for {name}"
    return dialect


def dialect_of_error(error: BaseException | None) -> Dialect | None:
    """Return the dialect whose driver raised this error; None for other errors."""
    module = type(error).__module__.partition(".")[0]
    return next((dialect for dialect in DIALECTS if module == dialect.module), None)
