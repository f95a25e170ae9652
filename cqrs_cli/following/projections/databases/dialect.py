"""The interface of projecting to a database, and the answers of a server that has schemas and transactions over tables.

A database is a subclass in a file of its own, which says what it does otherwise. The promises that each must keep
stand in `tests/following/projections/contract`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sqlalchemy import URL, Connection, Engine, Executable, MetaData, Select, Table, inspect, text
from sqlalchemy.dialects import postgresql

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import POSITIONS

#: The execution option of connections that only read.
READS = "cqrs_reads"

#: Stands in a connection's info while a projection works in its transaction, with what ended that, or None.
KEPT = "cqrs_transaction_kept"

#: `again`: the batch again, at once; `wait`: the database is away; `none`: somebody must correct something.
Remedy = Literal["again", "wait", "none"]

#: Begins a transaction.
Begin = Callable[[], AbstractContextManager[Connection]]


class Exchange(NamedTuple):
    """The tables of a projection that go, and the new ones in `schema` that come."""

    projection: str
    owner: str  # of the new ones
    schema: str
    old: list[str]
    new: list[str]


class Dialect(ABC):
    """A database. Its methods are called in any thread."""

    name: str  # in a URL, and SQLAlchemy's
    driver: str  # with SQLAlchemy's name of the driver
    module: str  # the package whose errors the driver raises
    example: str  # a URL
    extra = "projections"  # what pip installs for it
    password = "leave it out"  # where a password can stand instead
    tasks: int | None = None  # how many processes may write at a time; None: any number

    def checked(self, url: URL, root: Path, flag: str) -> URL:
        """The URL of a flag made complete; raises `UsageError` for one that cannot be used."""
        return url

    @abstractmethod
    def open(self, place: DatabaseAddress) -> Engine:
        """An engine whose transactions are what projecting needs. No connection outlives its use or its thread."""

    # Errors of its driver

    @abstractmethod
    def remedy(self, error: BaseException) -> Remedy:
        """The step that helps after an error."""

    def is_made(self, error: BaseException) -> bool:
        """True if what was to be made is there by now."""
        return "already exists" in str(error)

    def is_gone(self, error: BaseException) -> bool:
        """True if there is no such database or table."""
        return False

    def words(self, error: BaseException) -> str:
        """The error's text for people."""
        return str(error)

    # Tables

    def adapted(self, metadata: MetaData) -> MetaData:
        """The tables as they are made here. Raises `ConfigurationError` for what cannot be meant."""
        return metadata

    def check_tables(self, db: Connection, tables: Sequence[str]) -> None:
        """Raise `ConfigurationError` for a table whose rows are part of no transaction."""
        return

    def check_exchangeable(self, db: Connection, tables: Sequence[str]) -> None:
        """Raise `ConfigurationError` for live tables that could not be exchanged later."""
        return

    def upsert(
        self, table: Table, key: Mapping[str, Any], new: Mapping[str, Any], change: Mapping[str, Any]
    ) -> Executable:
        """A statement that makes a row of `key` and `new`, or makes this `change` to the row with that key."""
        row = postgresql.insert(table).values(**key, **new)
        return row.on_conflict_do_update(index_elements=list(key), set_=change)

    # The place beside the live tables, where new ones are filled

    def is_there(self, place: DatabaseAddress) -> bool:
        """False if it would have to be made before anything can be read."""
        return True

    @abstractmethod
    def beside(self, place: DatabaseAddress, projection: str) -> DatabaseAddress:
        """The place in which a projection's new tables are filled."""

    def exists(self, live: Engine, place: DatabaseAddress) -> bool:
        """True if somebody has begun to fill tables there."""
        return place.schema in inspect(live).get_schema_names()

    def clear(self, live: Engine, place: DatabaseAddress) -> None:
        """Drop what stands there, and make room for new tables."""
        with live.begin() as db:
            self.drop(db, str(place.schema))
            db.execute(text(f"CREATE SCHEMA {quoted(db, str(place.schema))}"))

    def drop(self, db: Connection, schema: str) -> None:
        """Drop a schema with all that is in it."""
        db.execute(text(f"DROP SCHEMA IF EXISTS {quoted(db, schema)} CASCADE"))

    # The exchange, whose steps `swap` leads

    @contextmanager
    def preparing(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Begin]:
        """Within the block a run is prepared, whose transactions it begins."""
        yield engine.begin

    @contextmanager
    def exchanging(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        """The transaction of an exchange: whole, or not done."""
        with engine.begin() as db:
            yield db

    def hold(self, db: Connection, rows: Select[Any]) -> list[Any]:
        """The rows, which nobody else can change until the transaction ends."""
        return list(db.execute(rows.with_for_update()).scalars())

    def has_positions(self, db: Connection, place: DatabaseAddress) -> bool:
        """True if the new tables are there, and were not exchanged before."""
        return inspect(db).has_table(POSITIONS.name, schema=place.schema)

    def attach(self, db: Connection, place: DatabaseAddress) -> str:
        """The schema by which the live connection sees the new tables."""
        return str(place.schema)

    @abstractmethod
    def exchange(self, db: Connection, exchange: Exchange) -> None:
        """Exchange the tables, and their positions with them."""


def quoted(db: Connection, name: str) -> str:
    """The name of a table or schema as it stands in a statement."""
    return str(db.dialect.identifier_preparer.quote(name))
