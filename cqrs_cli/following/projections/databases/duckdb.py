"""DuckDB: a columnar file for analysts, which only one process at a time can open.

A connection is opened for one transaction and closed after it, so that writing and reading processes can take turns.
Threads of one process take turns as well, because the file stays open as long as one of them uses it.
"""

import random
import threading
import time
from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Engine, Integer, MetaData, create_engine, event, text
from sqlalchemy.pool import NullPool

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import Remedy
from cqrs_cli.following.projections.databases.files import FileDialect, file_of

#: Maximum delay in seconds between two attempts to open a file that another process uses.
_TRY_EVERY = 0.005

#: After its turn a process leaves the file free for this number of seconds plus this part of the turn, so that another
#: process can open the file. Turns are long on a busy machine.
_PAUSE = 0.01
_PAUSE_SHARE = 0.1

#: DuckDB's error texts for a file that another process uses, and for a row that another transaction changed.
_TAKEN = "Could not set lock on file"
_CONFLICT = "onflict"

#: A lock for each file, held by the thread that uses the file.
_TURNS: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


class DuckDb(FileDialect):
    """DuckDB; its SQL is PostgreSQL's as far as projections need it."""

    name = driver = "duckdb"
    module = "_duckdb"
    example = "duckdb:///orders.duckdb"
    extra = "duckdb"
    title = "DuckDB"
    beyond = (".wal",)
    tasks = 1  # several tasks would only wait for each other

    def open(self, place: DatabaseAddress) -> Engine:
        alone = {"config": {"threads": 1}}  # batches are small, and tasks share the cores
        engine = create_engine(place.url, connect_args=alone, poolclass=NullPool)
        turn = _TURNS[str(file_of(place))]

        def connect(dialect: Any, _: object, given: Any, named: Any) -> Any:
            return _in_turn(turn, lambda: dialect.connect(*given, **named), place.patience)

        def begin(_: object, record: Any) -> None:
            record.info["cqrs_began"] = time.monotonic()

        def close(connection: Any, record: Any) -> None:
            connection.close()
            time.sleep(_PAUSE + _PAUSE_SHARE * (time.monotonic() - record.info["cqrs_began"]))
            turn.release()

        event.listen(engine, "do_connect", connect)
        event.listen(engine, "connect", begin)
        event.listen(engine, "close", close)
        return engine

    def remedy(self, error: BaseException) -> Remedy:
        said, kind = str(error), type(error).__name__
        if kind == "TransactionException" and _CONFLICT in said:
            return "again"
        return "wait" if _TAKEN in said or kind == "FatalException" else "none"

    def adapted(self, metadata: MetaData) -> MetaData:
        """Return the tables without sequences: a table swap copies the rows of new tables, but not their sequences."""
        copy = MetaData()
        for table in metadata.sorted_tables:
            for column in table.to_metadata(copy).primary_key.columns:
                if isinstance(column.type, Integer) and column.autoincrement == "auto":
                    column.autoincrement = False
        return copy

    def tables(self, db: Connection, schema: str | None) -> dict[str, str]:
        query = text(
            "SELECT table_name, sql FROM duckdb_tables()"
            " WHERE database_name = coalesce(:schema, current_database()) AND schema_name = 'main' ORDER BY table_oid"
        )
        return dict(tuple(row) for row in db.execute(query, {"schema": schema}))

    def indexes(self, db: Connection, schema: str) -> list[tuple[str, str]]:
        query = text("SELECT table_name, sql FROM duckdb_indexes() WHERE database_name = :schema")
        return [(table, script) for table, script in db.execute(query, {"schema": schema})]


def _in_turn(turn: Any, connect: Any, patience: float) -> Any:
    """Return a connection once no other thread or process uses the file; raises `IOException` after the timeout."""
    import duckdb

    deadline = time.monotonic() + patience
    if not turn.acquire(timeout=patience):
        raise duckdb.IOException(f"{_TAKEN}: another thread of this process has it")
    try:
        while True:
            try:
                return connect()
            except duckdb.IOException as taken:
                if _TAKEN not in str(taken) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0, _TRY_EVERY))
    except BaseException:
        turn.release()
        raise
