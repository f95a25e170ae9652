"""The interface to a projection's database, with defaults for a server that has schemas and transactional DDL.

Each database is a subclass in its own file, which overrides what differs. The contract tests are in
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

#: Key in the `info` of a connection while a projection works in its transaction. The value is the error that ended the
#: transaction, or None.
TRANSACTION_GUARD = "cqrs_transaction_kept"

#: Retry policy. `again`: retry the batch at once; `wait`: the database is unavailable; `none`: a retry does not help.
RetryPolicy = Literal["again", "wait", "none"]

#: Begins a transaction, and returns its connection as a context manager, which commits or rolls back.
Begin = Callable[[], AbstractContextManager[Connection]]


class TableSwap(NamedTuple):
    """The tables of a projection in a table swap."""

    projection: str
    owner: str  # the owner of the new tables
    schema: str  # the schema of the new tables
    old: list[str]  # tables that are dropped
    new: list[str]  # tables that replace them


class Dialect(ABC):
    """A kind of database, such as PostgreSQL. Its methods are called in any thread."""

    name: str  # scheme of URLs, and SQLAlchemy's name
    driver: str  # the name with SQLAlchemy's driver
    module: str  # the top-level package of the driver's errors
    example: str  # an example of a URL
    extra = "projections"  # the extra that pip installs for it
    password_hint = "leave it out"  # where to put a password instead
    tasks: int | None = None  # maximum number of concurrent writer processes; None: unlimited

    def complete_url(self, url: URL, root: Path, flag: str) -> URL:
        """Return the completed URL of a flag; raises `UsageError` for an unusable URL."""
        return url

    @abstractmethod
    def open_engine(self, database: DatabaseAddress) -> Engine:
        """Return an engine with transactions as projections need them. A connection is closed after its use, or
        returned to the engine's pool.
        """

    # Errors of its driver

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
        """Return the tables as this database needs them. Raises `ConfigurationError` for an unsuitable definition."""
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
        """Return a statement that inserts a row of `key` and `new`, or applies `change` to the row with that key."""
        row = postgresql.insert(table).values(**key, **new)
        return row.on_conflict_do_update(index_elements=list(key), set_=change)

    # Shadow tables

    def database_exists(self, database: DatabaseAddress) -> bool:
        """Return False if the database must be created before a read."""
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
        """Yield a function that begins transactions, with which a run is prepared within the block."""
        yield engine.begin

    @contextmanager
    def table_swap(self, engine: Engine, projection: str, new: DatabaseAddress) -> Iterator[Connection]:
        """Yield a connection whose transaction is the table swap: complete, or not done."""
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
