"""DuckDB: a columnar file for analysts, which only one process at a time can open.

A connection is opened for one transaction and closed after it, so that writing and reading processes can take turns.
The threads of a process also take turns: with overlapping connections, the process would never close the file.
"""

import random
import threading
import time
from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Engine, Integer, MetaData, create_engine, event, text
from sqlalchemy.pool import NullPool

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import RetryPolicy
from cqrs_cli.following.projections.databases.files import FileDialect, database_file

#: Maximum delay in seconds between two attempts to open a file that another process uses.
_MAX_RETRY_DELAY = 0.005

#: Seconds for which a process leaves the file closed after its transaction, so that another process can open it.
#: `_PAUSE_SHARE` × the transaction's duration is added, because all durations are longer on a busy machine.
_PAUSE = 0.01
_PAUSE_SHARE = 0.1

#: DuckDB's error texts for a full disk, a file that another process uses, and a row that another transaction has
#: changed.
_FULL_TEXT = "No space left on device"
_LOCKED_TEXT = "Could not set lock on file"
_CONFLICT_TEXT = "onflict"  # "Conflict" and "conflict"

#: A lock for each file, held by the thread that uses the file.
_FILE_LOCKS: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


class DuckDb(FileDialect):
    """DuckDB. Projections use only SQL that is the same in PostgreSQL."""

    name = driver = "duckdb"
    module = "_duckdb"
    example = "duckdb:///orders.duckdb"
    extra = "duckdb"
    title = "DuckDB"
    auxiliary_suffixes = (".wal",)
    tasks = 1  # several tasks would only wait for each other

    def open_engine(self, database: DatabaseAddress) -> Engine:
        return self._open(database, reads_only=False)

    def open_reader(self, database: DatabaseAddress) -> Engine:
        return self._open(database, reads_only=True)

    def _open(self, database: DatabaseAddress, reads_only: bool) -> Engine:
        config = {"threads": 1}  # batches are small, and tasks share the cores
        options = {"config": config, "read_only": reads_only}
        engine = create_engine(database.url, connect_args=options, poolclass=NullPool)
        file_lock = _FILE_LOCKS[str(database_file(database))]

        def connect(dialect: Any, _: object, args: Any, kwargs: Any) -> Any:
            return _connect_when_free(
                file_lock, lambda: dialect.connect(*args, **kwargs), database.lock_timeout
            )

        def record_start(_: object, record: Any) -> None:
            record.info["cqrs_began"] = time.monotonic()

        def close(connection: Any, record: Any) -> None:
            connection.close()
            time.sleep(_PAUSE + _PAUSE_SHARE * (time.monotonic() - record.info["cqrs_began"]))
            file_lock.release()

        event.listen(engine, "do_connect", connect)
        event.listen(engine, "connect", record_start)
        event.listen(engine, "close", close)
        return engine

    def retry_policy(self, error: BaseException) -> RetryPolicy:
        message, error_type = str(error), type(error).__name__
        if error_type == "TransactionException" and _CONFLICT_TEXT in message:
            return "again"
        return (
            "wait"
            if _LOCKED_TEXT in message or error_type == "FatalException" or _FULL_TEXT in message
            else "none"
        )

    def adapt_metadata(self, metadata: MetaData) -> MetaData:
        """Return the tables without sequences: a table swap copies the rows of new tables, but not their sequences."""
        copy = MetaData()
        for table in metadata.sorted_tables:
            for column in table.to_metadata(copy).primary_key.columns:
                if isinstance(column.type, Integer) and column.autoincrement == "auto":
                    column.autoincrement = False
        return copy

    def create_statements(self, db: Connection, schema: str | None) -> dict[str, str]:
        query = text(
            "SELECT table_name, sql FROM duckdb_tables()"
            " WHERE database_name = coalesce(:schema, current_database()) AND schema_name = 'main' ORDER BY table_oid"
        )
        return dict(tuple(row) for row in db.execute(query, {"schema": schema}))

    def index_statements(self, db: Connection, schema: str) -> list[tuple[str, str]]:
        query = text("SELECT table_name, sql FROM duckdb_indexes() WHERE database_name = :schema")
        return [(table, statement) for table, statement in db.execute(query, {"schema": schema})]


def _connect_when_free(file_lock: Any, connect: Any, timeout: float) -> Any:
    """Return a connection once no other thread or process uses the file; raises `IOException` after the timeout."""
    import duckdb

    deadline = time.monotonic() + timeout
    if not file_lock.acquire(timeout=timeout):
        raise duckdb.IOException(f"{_LOCKED_TEXT}: another thread of this process uses the file")
    try:
        while True:
            try:
                return connect()
            except duckdb.IOException as locked:
                if _LOCKED_TEXT not in str(locked) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0, _MAX_RETRY_DELAY))
    except BaseException:
        file_lock.release()
        raise
