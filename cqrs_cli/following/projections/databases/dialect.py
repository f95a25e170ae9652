"""The interface to a projection's database, with defaults for a server that has schemas and transactional DDL.

Each database has a subclass in its own file, which overrides the differences. The contract tests are in
`tests/following/projections/contract`.
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

#: Execution option of read-only connections.
READ_ONLY = "cqrs_reads"

#: Key in the `info` of a connection within `forbid_transaction_end`. Its value is the error that has ended the
#: transaction, or None.
TRANSACTION_GUARD = "cqrs_transaction_kept"

#: Retry policy. `again`: retry the batch at once; `wait`: the database is unavailable; `none`: a retry does not help.
RetryPolicy = Literal["again", "wait", "none"]

#: Begins a transaction. Returns a context manager, which yields the connection, and commits or rolls back at the end.
Begin = Callable[[], AbstractContextManager[Connection]]


class TableSwap(NamedTuple):
    """The tables of a projection in a table swap."""

    projection: str
    owner: str  # the run that has filled the shadow tables
    schema: str  # the schema of the shadow tables
    old: list[str]  # names of the live tables, which are dropped
    new: list[str]  # names of the shadow tables, which become live


class Dialect(ABC):
    """A kind of database, such as PostgreSQL. Its methods are called in any thread."""

    name: str  # scheme of URLs, such as `postgresql`; also SQLAlchemy's name of the database
    driver: str  # scheme with SQLAlchemy's driver, such as `postgresql+psycopg`
    module: str  # top-level package of the driver's exceptions, such as `psycopg`
    example: str  # an example of a URL
    extra = "projections"  # the extra of `cqrs-cli` with the driver
    password_hint = "leave it out"  # error text: where to put a password instead of the URL
    tasks: int | None = None  # maximum number of concurrent writer processes; None: unlimited

    def complete_url(self, url: URL, root: Path, flag: str) -> URL:
        """Return the completed URL of a flag; raises `UsageError` for an unusable URL."""
        return url

    @abstractmethod
    def open_engine(self, database: DatabaseAddress) -> Engine:
        """Return an engine with the transaction isolation that projections need."""

    def open_reader(self, database: DatabaseAddress) -> Engine:
        """Return an engine that only reads, and creates no database file."""
        return self.open_engine(database)

    # Errors of the driver

    @abstractmethod
    def retry_policy(self, error: BaseException) -> RetryPolicy:
        """Return the retry policy for an error."""

    def is_already_exists(self, error: BaseException) -> bool:
        """Return True if the error reports that the object to create exists already."""
        return "already exists" in str(error)

    def is_not_found(self, error: BaseException) -> bool:
        """Return True if the database or table does not exist."""
        return False

    def error_text(self, error: BaseException) -> str:
        """Return the error's text for people."""
        return str(error)

    # Tables

    def adapt_metadata(self, metadata: MetaData) -> MetaData:
        """Return the tables with the changes that this database needs. Raises `ConfigurationError` for an unsuitable
        definition.
        """
        return metadata

    def check_tables(self, db: Connection, tables: Sequence[str]) -> None:
        """Raise `ConfigurationError` for a table without transactions."""
        return

    def check_swappable(self, db: Connection, tables: Sequence[str]) -> None:
        """Raise `ConfigurationError` for live tables that a table swap cannot replace."""
        return

    def upsert(
        self, table: Table, key: Mapping[str, Any], new: Mapping[str, Any], change: Mapping[str, Any]
    ) -> Executable:
        """Return a statement that inserts a row of `key` and `new`, or applies `change` to the row with `key`."""
        row = postgresql.insert(table).values(**key, **new)
        return row.on_conflict_do_update(index_elements=list(key), set_=change)

    # Shadow tables

    def database_exists(self, database: DatabaseAddress) -> bool:
        """Return False for a database file that does not exist."""
        return True

    @abstractmethod
    def shadow_address(self, database: DatabaseAddress, projection: str) -> DatabaseAddress:
        """Return the address for a projection's shadow tables."""

    def has_shadow_tables(self, live: Engine, database: DatabaseAddress) -> bool:
        """Return True if a run has begun to fill shadow tables at `database`."""
        return database.schema in inspect(live).get_schema_names()

    def reset_shadow_tables(self, live: Engine, database: DatabaseAddress) -> None:
        """Drop existing shadow tables, and prepare `database` for new ones."""
        with live.begin() as db:
            self.drop_schema(db, str(database.schema))
            db.execute(text(f"CREATE SCHEMA {quoted(db, str(database.schema))}"))

    def drop_schema(self, db: Connection, schema: str) -> None:
        """Drop a schema with everything in it."""
        db.execute(text(f"DROP SCHEMA IF EXISTS {quoted(db, schema)} CASCADE"))

    # The table swap, whose steps are in `swap`

    @contextmanager
    def preparation(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Begin]:
        """Yield the function with which a run begins its transactions while it prepares its tables. `new`: the address
        of the shadow tables.
        """
        yield engine.begin

    @contextmanager
    def table_swap(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        """Yield a connection with a transaction for the table swap, so that the swap is atomic. `new`: the address of
        the shadow tables.
        """
        with engine.begin() as db:
            yield db

    def lock_rows(self, db: Connection, rows: Select[Any]) -> list[Any]:
        """Return the rows, and lock them until the transaction ends."""
        return list(db.execute(rows.with_for_update()).scalars())

    def has_shadow_positions(self, db: Connection, database: DatabaseAddress) -> bool:
        """Return True if the shadow tables exist and were not swapped yet."""
        return inspect(db).has_table(POSITIONS.name, schema=database.schema)

    def attach_shadow_tables(self, db: Connection, database: DatabaseAddress) -> str:
        """Return the schema by which the live connection accesses the shadow tables."""
        return str(database.schema)

    @abstractmethod
    def swap_tables(self, db: Connection, swap: TableSwap) -> None:
        """Swap the tables together with their positions."""


def quoted(db: Connection, name: str) -> str:
    """Return the name of a table or schema, quoted for a statement."""
    return str(db.dialect.identifier_preparer.quote(name))
