"""Every database that projections fill, by the name in its URL."""

from sqlalchemy import Connection, Engine, make_url

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import Dialect
from cqrs_cli.following.projections.databases.duckdb import DuckDb
from cqrs_cli.following.projections.databases.mariadb import MariaDb
from cqrs_cli.following.projections.databases.postgresql import Postgres
from cqrs_cli.following.projections.databases.sqlite import Sqlite

#: A new database is a file of this folder, and a line here.
DIALECTS: tuple[Dialect, ...] = (
    Sqlite(),
    Postgres(),
    MariaDb(),
    DuckDb(),
)


def find_dialect(name: str) -> Dialect | None:
    """The dialect of the databases whose URL begins with this name, with or without their driver."""
    return next((one for one in DIALECTS if name in (one.name, one.driver)), None)


def dialect_of(database: DatabaseAddress | Engine | Connection) -> Dialect:
    """The dialect of a database that `parse_database` accepted, or of an engine made by anybody."""
    match database:
        case DatabaseAddress():
            name = make_url(database.url).drivername
        case _:
            name = database.dialect.name
    found = find_dialect(name)
    assert found is not None, f"projections are not kept in {name}"
    return found


def dialect_that_raised(error: BaseException | None) -> Dialect | None:
    """The dialect whose driver raised this error; None for an error of anything else."""
    module = type(error).__module__.partition(".")[0]
    return next((one for one in DIALECTS if module == one.module), None)
