"""MariaDB's differences from SQLite and PostgreSQL in text, times, numbers and strictness have no effect."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

import cqrs_cli as cqrs
from aggregates.order import Placed
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.database import parse_database
from cqrs_cli.following.projections.databases import mariadb
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.mariadb_tables import adapt_for_mariadb
from cqrs_cli.following.projections.definition import check_columns, database_metadata
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.positions import move_position
from cqrs_cli.following.projections.tables import create_control_tables, create_tables, read_table_record
from tests.following.projections.contract import DatabaseContract
from tests.following.projections.contract.server import ServerContract
from tests.following.projections.projector_harness import (
    Events,
    error_texts,
    event_partition,
    event_record,
    expected_tables,
    make_plan,
    open_engine,
    query_rows,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
    with_project_function,
)
from tests.support.mariadb import MariaDb

pytestmark = pytest.mark.database


def tables_of(*tables: Any) -> LoadedProjection:
    """Return a projection with tables of these columns."""
    metadata = MetaData()
    for number, items in enumerate(tables):
        Table(f"t{number}", metadata, *items)
    loaded = recent_orders()
    return replace(loaded, projection=cqrs.Projection(loaded.projection.project, metadata))


@contextmanager
def server_set(server: MariaDb, variable: str, value: str, restored_value: str) -> Iterator[None]:
    """Set a server variable for new connections while the block lasts."""
    server.execute(f"SET GLOBAL {variable} = {value}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {variable} = {restored_value}")


class TestMariaDb(DatabaseContract, ServerContract):
    @pytest.fixture
    def database(self, mariadb_database: DatabaseAddress) -> DatabaseAddress:
        return mariadb_database

    @pytest.fixture
    def server(self, mariadb_server: MariaDb) -> MariaDb:
        return mariadb_server


@pytest.mark.parametrize(
    "database_options", ["", "CHARACTER SET latin1", "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"]
)
def test_texts_differ_by_every_letter(mariadb_server: MariaDb, tmp_path: Path, database_options: str) -> None:
    """Keys differ by letter case, trailing spaces and letters beyond latin1, for any collation of the database."""
    database = parse_database(mariadb_server.make_database(database_options), tmp_path)
    names = ["ann", "Ann", "ann ", "änn", "\N{GRINNING FACE}", "ﬁ", "fi"]
    log = [event_record(number, f"o-{name}", 1, Placed(name)) for number, name in enumerate(names)]
    logs, loaded = {event_partition(0): log}, recent_orders()
    plan = make_plan(logs, database)
    take_over(plan, loaded)
    assert error_texts(run_projectors(plan, logs, loaded)) == []
    assert read_tables(database) == expected_tables(logs)
    assert set(read_tables(database)[1]) == set(names)


def test_values_are_stored_completely(mariadb_database: DatabaseAddress) -> None:
    """Milliseconds, 16 digits, and more than 64 KiB are stored as in the other databases."""
    columns = [Column("n", Float), Column("at", DateTime(timezone=True)), Column("long", Text)]
    loaded = tables_of([*columns, Column("bytes", LargeBinary), Column("free", String)])
    moment = datetime(2026, 11, 23, 4, 5, 6, 789_123, tzinfo=UTC)
    row = {
        "n": 0.1 + 0.2,
        "at": moment,
        "long": "é" * 100_000,
        "bytes": b"\0" * 100_000,
        "free": "x" * 100_000,
    }
    (table,) = loaded.projection.metadata.sorted_tables
    with open_engine(mariadb_database) as engine:
        create_control_tables(engine)
        create_tables(engine, loaded)
        with engine.begin() as db:
            db.execute(insert(table), row)
            stored_row = dict(db.execute(select(table)).mappings().one())
    assert stored_row == {**row, "at": moment.replace(tzinfo=None)}


def test_explicit_lengths_are_kept(mariadb_database: DatabaseAddress) -> None:
    """The author's lengths and collations stay. Keys and indexes get a length, other texts have none."""
    key = [
        Column("a", String, primary_key=True),
        Column("b", String(7)),
        Column("c", String),
        Column("d", String),
    ]
    loaded = tables_of([*key, Column("e", String), Index("by_c", "c"), UniqueConstraint("d")])
    with open_engine(mariadb_database) as engine:
        (table,) = database_metadata(loaded, engine).sorted_tables
        types = {column.name: str(column.type) for column in table.columns}
    assert types == {
        "a": "VARCHAR(255)",
        "b": "VARCHAR(7)",
        "c": "VARCHAR(255)",
        "d": "VARCHAR(255)",
        "e": "LONGTEXT",
    }
    assert str(loaded.projection.metadata.sorted_tables[0].c.a.type) == "VARCHAR"


@pytest.mark.parametrize(
    ("column", "engine", "complaint"),
    [
        (Column("price", Numeric), "innodb", "column t0.price is Numeric without a precision"),
        (Column("price", Integer), "MyISAM", "table t0 has the engine MyISAM, which has no transactions"),
    ],
)
def test_unusable_tables_are_refused(column: Column[Any], engine: str, complaint: str) -> None:
    metadata = MetaData()
    Table("t0", metadata, column, mariadb_engine=engine)
    with pytest.raises(ConfigurationError, match=complaint):
        adapt_for_mariadb(metadata)


@pytest.mark.covers("projected-once")
def test_tables_without_transactions_are_refused(mariadb_database: DatabaseAddress) -> None:
    loaded = recent_orders()
    take_over(make_plan({event_partition(0): []}, mariadb_database), loaded)
    with open_engine(mariadb_database) as engine, engine.begin() as db:
        db.execute(text("ALTER TABLE customers ENGINE=Aria"))
        plan = read_table_record(db, "recent_orders")
        assert plan is not None
        with pytest.raises(ConfigurationError, match="table customers is in Aria, which has no transactions"):
            check_columns(db, "recent_orders", plan.tables)


def test_old_servers_are_refused() -> None:
    db: Any = SimpleNamespace(dialect=SimpleNamespace(server_version_info=(10, 5, 29)))
    with pytest.raises(ConfigurationError, match=r"MariaDB 10\.5\.29 may rename only some of several tables"):
        mariadb.check_server(db)
    db.dialect.server_version_info = (10, 6, 1)
    mariadb.check_server(db)


def test_too_long_values_are_errors(mariadb_server: MariaDb, mariadb_database: DatabaseAddress) -> None:
    """A server in non-strict mode would cut them silently."""
    with server_set(mariadb_server, "sql_mode", "''", "DEFAULT"):
        log = [event_record(0, "o", 1, Placed("c" * 5)), event_record(1, "p" * 256, 1, Placed("c"))]
        logs, loaded = {event_partition(0): log}, recent_orders()
        plan = make_plan(logs, mariadb_database)
        take_over(plan, loaded)
        (error,) = error_texts(run_projectors(plan, logs, loaded))
    assert "raised on order.Placed order.events:0@1" in error
    assert "Data too long for column 'order_id'" in error
    assert list(read_tables(mariadb_database)[0]) == ["o"]


def test_too_large_rows_are_errors(mariadb_server: MariaDb, mariadb_database: DatabaseAddress) -> None:
    """The error of `max_allowed_packet` is not taken for a lost server, for which the projector would wait forever."""
    with server_set(mariadb_server, "max_allowed_packet", "1048576", "16777216"):
        logs, loaded = {event_partition(0): random_log(0, 3)}, recent_orders()
        plan = make_plan(logs, mariadb_database)
        take_over(plan, loaded)

        def project(db: Connection, events: Events) -> None:
            db.execute(text("SELECT length(:it)"), {"it": "x" * 3_000_000})

        (error,) = error_texts(run_projectors(plan, logs, with_project_function(loaded, project)))
    assert "max_allowed_packet" in error
    assert f"order.events:0@{logs[event_partition(0)][0].offset}" in error


def test_update_counts_matched_rows(mariadb_database: DatabaseAddress) -> None:
    """An UPDATE counts all matched rows, not only changed rows, so an unmoved position is found."""
    plan = make_plan({event_partition(0): []}, mariadb_database)
    take_over(plan, recent_orders())
    with open_engine(mariadb_database) as engine, engine.begin() as db:
        move_position(db, plan, event_partition(0), 0, 0)


def test_passwords_come_from_environment_or_file(
    mariadb_server: MariaDb,
    mariadb_database: DatabaseAddress,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The password comes from MYSQL_PWD or ~/.my.cnf, as for MariaDB's own programs."""
    monkeypatch.setenv("HOME", str(tmp_path))
    mariadb_server.execute("CREATE OR REPLACE USER shop@localhost IDENTIFIED BY 'secret'")
    mariadb_server.execute("GRANT ALL ON *.* TO shop@localhost")
    database = DatabaseAddress(mariadb_database.url.replace("root@", "shop@"))
    with pytest.raises(DBAPIError, match="Access denied"):
        query_rows(database, "SELECT 1")
    monkeypatch.setenv("MYSQL_PWD", "secret")
    assert query_rows(database, "SELECT 1") == [(1,)]
    monkeypatch.delenv("MYSQL_PWD")
    (tmp_path / ".my.cnf").write_text("[client]\npassword = secret\n")
    assert query_rows(database, "SELECT 1") == [(1,)]
