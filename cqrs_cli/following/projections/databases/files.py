"""The dialect of databases in one file, with one writing transaction at a time."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, MetaData, Select, make_url

from cqrs_cli.errors import UsageError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import POSITIONS, swap_control_rows
from cqrs_cli.following.projections.databases.dialect import Dialect, TableSwap, quoted

#: The schema name under which the file of the shadow tables is attached to the live connection.
_ATTACHED = "cqrs_new"


class FileDialect(Dialect):
    """A file database; shadow tables are in a separate file.

    A table swap copies the rows, so it writes only the live file and needs only one commit.
    """

    title: str  # name of the database in messages
    auxiliary_suffixes: tuple[str, ...]  # suffixes of the auxiliary files, such as `-wal`

    def complete_url(self, url: URL, root: Path, flag: str) -> URL:
        """Return the URL with an absolute path; a relative file is below `root`."""
        if url.database in (None, "", ":memory:") or url.query or url.host:
            raise UsageError(f"{flag}: {self.title} needs a file", f"for example {self.example}")
        return url.set(database=str((root / str(url.database)).resolve()))

    def database_exists(self, database: DatabaseAddress) -> bool:
        return database_file(database).exists()

    def shadow_address(self, database: DatabaseAddress, projection: str) -> DatabaseAddress:
        url = make_url(database.url)
        return database._replace(url=url.set(database=f"{url.database}-{projection}-new").render_as_string())

    def has_shadow_tables(self, live: Engine, database: DatabaseAddress) -> bool:
        return self.database_exists(database)

    def reset_shadow_tables(self, live: Engine, database: DatabaseAddress) -> None:
        for suffix in ("", *self.auxiliary_suffixes):
            Path(f"{database_file(database)}{suffix}").unlink(missing_ok=True)

    @contextmanager
    def table_swap(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        with engine.begin() as db:
            yield db
        self.reset_shadow_tables(engine, new)

    def lock_rows(self, db: Connection, rows: Select[Any]) -> list[Any]:
        """Return the rows; the transaction locks the whole file."""
        return list(db.execute(rows).scalars())

    def has_shadow_positions(self, db: Connection, database: DatabaseAddress) -> bool:
        return self.database_exists(database)

    def attach_shadow_tables(self, db: Connection, database: DatabaseAddress) -> str:
        """Attach the file of the shadow tables, which other connections have filled before."""
        path = str(database_file(database)).replace("'", "''")
        db.exec_driver_sql(f"ATTACH '{path}' AS {_ATTACHED}")
        return _ATTACHED

    @abstractmethod
    def create_statements(self, db: Connection, schema: str | None) -> dict[str, str]:
        """Return table → CREATE statement for the tables in `schema` (None: the live file), in creation order."""

    @abstractmethod
    def index_statements(self, db: Connection, schema: str) -> list[tuple[str, str]]:
        """Return (table, CREATE INDEX statement) for each index of the attached file."""

    def swap_tables(self, db: Connection, swap: TableSwap) -> None:
        schema, new_tables = swap.schema, set(swap.new)
        for table in reversed(self.create_statements(db, None)):
            if table in swap.old:
                db.exec_driver_sql(f"DROP TABLE {quoted(db, table)}")
        created = {
            table: statement
            for table, statement in self.create_statements(db, schema).items()
            if table in new_tables
        }
        for statement in created.values():
            db.exec_driver_sql(statement)
        for table in created:
            db.exec_driver_sql(f"INSERT INTO {quoted(db, table)} SELECT * FROM {schema}.{quoted(db, table)}")
        for table, statement in self.index_statements(db, schema):
            if table in new_tables:
                db.exec_driver_sql(statement)
        swap_control_rows(db, swap.projection, POSITIONS.to_metadata(MetaData(), schema=schema))


def database_file(database: DatabaseAddress) -> Path:
    """Return the file of a database address."""
    return Path(str(make_url(database.url).database))
