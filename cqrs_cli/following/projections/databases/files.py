"""A database in one file, with one writing transaction at a time."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, MetaData, Select, make_url

from cqrs_cli.errors import UsageError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import POSITIONS, adopt_control
from cqrs_cli.following.projections.databases.dialect import Dialect, Exchange, quoted

#: The schema name under which the file of the shadow tables is attached to the live connection.
_NEW = "cqrs_new"


class FileDialect(Dialect):
    """A file database; shadow tables are in a separate file.

    A table swap copies the rows, so it writes only the live file and needs only one commit.
    """

    title: str  # name in messages
    beyond: tuple[str, ...]  # suffixes of its auxiliary files

    def checked(self, url: URL, root: Path, flag: str) -> URL:
        """Return the URL with an absolute path; a relative file is below `root`."""
        if url.database in (None, "", ":memory:") or url.query or url.host:
            raise UsageError(f"{flag}: {self.title} needs a file", f"write {self.example}")
        return url.set(database=str((root / str(url.database)).resolve()))

    def is_there(self, place: DatabaseAddress) -> bool:
        return file_of(place).exists()

    def beside(self, place: DatabaseAddress, projection: str) -> DatabaseAddress:
        url = make_url(place.url)
        return place._replace(url=url.set(database=f"{url.database}-{projection}-new").render_as_string())

    def exists(self, live: Engine, place: DatabaseAddress) -> bool:
        return self.is_there(place)

    def clear(self, live: Engine, place: DatabaseAddress) -> None:
        for end in ("", *self.beyond):
            Path(f"{file_of(place)}{end}").unlink(missing_ok=True)

    @contextmanager
    def exchanging(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        with engine.begin() as db:
            yield db
        self.clear(engine, new)

    def hold(self, db: Connection, rows: Select[Any]) -> list[Any]:
        """Return the rows; the transaction locks the whole file."""
        return list(db.execute(rows).scalars())

    def has_positions(self, db: Connection, place: DatabaseAddress) -> bool:
        return self.is_there(place)

    def attach(self, db: Connection, place: DatabaseAddress) -> str:
        """Attach the file of the shadow tables. This comes after catching up, which uses separate connections."""
        file = str(file_of(place)).replace("'", "''")
        db.exec_driver_sql(f"ATTACH '{file}' AS {_NEW}")
        return _NEW

    @abstractmethod
    def tables(self, db: Connection, schema: str | None) -> dict[str, str]:
        """Return the CREATE statements of the tables in `schema` (None: the live file), in the order of creation."""

    @abstractmethod
    def indexes(self, db: Connection, schema: str) -> list[tuple[str, str]]:
        """Return (table, CREATE INDEX statement) for each index of the attached file."""

    def exchange(self, db: Connection, exchange: Exchange) -> None:
        schema, coming = exchange.schema, set(exchange.new)
        for table in reversed(self.tables(db, None)):
            if table in exchange.old:
                db.exec_driver_sql(f"DROP TABLE {quoted(db, table)}")
        made = {table: script for table, script in self.tables(db, schema).items() if table in coming}
        for script in made.values():
            db.exec_driver_sql(script)
        for table in made:
            db.exec_driver_sql(f"INSERT INTO {quoted(db, table)} SELECT * FROM {schema}.{quoted(db, table)}")
        for table, script in self.indexes(db, schema):
            if table in coming:
                db.exec_driver_sql(script)
        adopt_control(db, exchange.projection, POSITIONS.to_metadata(MetaData(), schema=schema))


def file_of(place: DatabaseAddress) -> Path:
    """Return the file of a database address."""
    return Path(str(make_url(place.url).database))
