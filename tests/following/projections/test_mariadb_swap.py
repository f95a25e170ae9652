"""A table swap in MariaDB has three steps: interrupted anywhere, it is either finished or undone."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

import cqrs_cli as cqrs
from cqrs_cli.errors import ConfigurationError, CqrsError, TakenOverError
from cqrs_cli.following.projections.databases import mariadb
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.failures import retry_policy
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.swap import raise_first_error, swap_tables
from tests.following.projections.projector_harness import (
    Logs,
    error_texts,
    event_partition,
    expected_tables,
    make_plan,
    open_engine,
    query_rows,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
)
from tests.following.projections.table_swaps import (
    create_shadow_tables,
    fill_live_tables,
    has_shadow_tables,
    order_counts_by_buyer,
    second_revision,
    swap_to_second_revision,
)
from tests.support import ROOT
from tests.support.mariadb import MariaDb
from tests.support.waiting import eventually

pytestmark = pytest.mark.database


@contextmanager
def prepared(database: DatabaseAddress) -> Iterator[None]:
    """Prepare the tables as the next run does at its start."""
    dialect = dialect_of(database)
    with (
        open_engine(database) as engine,
        dialect.preparation(engine, "recent_orders", dialect.shadow_address(database, "recent_orders")),
    ):
        yield


SWAP_PROGRAM = """
import os, signal, sys
from cqrs_cli.following.projections.databases import mariadb
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.table_swaps import *
from tests.following.projections.projector_harness import *
database, point = DatabaseAddress(sys.argv[1]), sys.argv[2]
logs = {event_partition(partition): random_log(partition, 90)[:60] for partition in range(2)}
live = make_plan(logs, database, "old")
new = replace(live, database=dialect_of(database).shadow_address(database, live.name), owner="new")
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
rename = mariadb.rename_tables
def rename_and_die(*arguments):
    rename(*arguments)
    die()
if point == "fenced":
    mariadb.rename_tables = die
elif point == "renamed":
    mariadb.rename_tables = rename_and_die
else:
    mariadb.MariaDb.drop_schema = die
swap_to_second_revision(live, new, logs)
"""


@pytest.mark.covers("projected-once")
@pytest.mark.parametrize("crash", ["client", "server"])
@pytest.mark.parametrize("point", ["fenced", "renamed", "settled"])
def test_killed_swap_leaves_complete_tables(
    mariadb_server: MariaDb, mariadb_database: DatabaseAddress, point: str, crash: str
) -> None:
    """After a kill at any step of a swap, the older run is fenced, and the next run finds complete tables."""
    longer_logs = {event_partition(partition): random_log(partition, 90) for partition in range(2)}
    logs = {partition: log[:60] for partition, log in longer_logs.items()}
    live = fill_live_tables(mariadb_database, logs)
    create_shadow_tables(live, second_revision(), "new")
    process = subprocess.run(
        [sys.executable, "-c", SWAP_PROGRAM, mariadb_database.url, point], cwd=ROOT, check=False
    )
    assert process.returncode == -signal.SIGKILL
    if crash == "server":
        mariadb_server.kill()
        mariadb_server.start()
    for error in run_projectors(
        make_plan(longer_logs, mariadb_database, "old"), longer_logs, recent_orders()
    ):
        assert isinstance(error.error, TakenOverError)
    if point == "fenced":
        assert read_tables(mariadb_database) == expected_tables(logs)
    else:
        assert order_counts_by_buyer(mariadb_database) == expected_tables(logs)[1]
    with prepared(mariadb_database):
        pass
    if point == "fenced":
        assert query_rows(mariadb_database, "SELECT revision FROM cqrs_projections") == [(1,)]
        swap_to_second_revision(
            live,
            replace(
                live,
                database=dialect_of(mariadb_database).shadow_address(mariadb_database, live.name),
                owner="new",
            ),
            logs,
        )
    assert query_rows(mariadb_database, "SELECT revision FROM cqrs_projections") == [(2,)]
    assert order_counts_by_buyer(mariadb_database) == expected_tables(logs)[1]
    assert not has_shadow_tables(
        mariadb_database, dialect_of(mariadb_database).shadow_address(mariadb_database, live.name)
    )
    assert (
        error_texts(
            run_projectors(make_plan(longer_logs, mariadb_database, "new"), longer_logs, second_revision())
        )
        == []
    )
    assert order_counts_by_buyer(mariadb_database) == expected_tables(longer_logs)[1]


@pytest.mark.slow
@pytest.mark.covers("projected-once")
def test_server_killed_during_a_swap(mariadb_server: MariaDb, mariadb_database: DatabaseAddress) -> None:
    """After the server is killed at any moment of a swap, all tables are old, or all are new."""
    logs = {event_partition(partition): random_log(partition, 30) for partition in range(2)}
    live, revisions, wait = fill_live_tables(mariadb_database, logs), set[int](), 0.05
    for number in range(12):
        new = create_shadow_tables(live, second_revision(), f"new {number}")
        raise_first_error(run_projectors(replace(new, end_offsets=live.end_offsets), logs, second_revision()))
        thread = threading.Thread(target=try_to_swap, args=(live, new, logs))
        thread.start()
        thread.join(wait)
        mariadb_server.kill()
        mariadb_server.start()
        thread.join()
        with prepared(mariadb_database):
            pass
        ((revision,),) = query_rows(mariadb_database, "SELECT revision FROM cqrs_projections")
        revisions.add(revision)
        wait *= 1.6 if revision == 1 else 0.6  # aims at the moment when the tables are renamed
        if revision == 1:
            assert read_tables(mariadb_database) == expected_tables(logs)
            continue
        assert order_counts_by_buyer(mariadb_database) == expected_tables(logs)[1]
        with open_engine(mariadb_database) as engine, engine.begin() as db:
            db.execute(text("DROP TABLE recent_orders, buyers, cqrs_positions, cqrs_projections"))
        live = fill_live_tables(mariadb_database, logs)
    assert revisions == {1, 2}


def try_to_swap(live: ProjectionPlan, new: ProjectionPlan, logs: Logs) -> None:
    with suppress(SQLAlchemyError, CqrsError):
        swap_to_second_revision(live, new, logs)


def test_readers_miss_no_table(mariadb_database: DatabaseAddress) -> None:
    """Readers read all the time: each read finds a table with all rows."""
    logs = {event_partition(0): random_log(0, 60)}
    live = fill_live_tables(mariadb_database, logs)
    new = create_shadow_tables(live, second_revision(), "new")
    stop, row_counts = threading.Event(), list[int]()

    def read_row_counts() -> None:
        with open_engine(mariadb_database) as engine:
            while not stop.is_set():
                with engine.connect() as db:
                    row_counts.append(db.execute(text("SELECT count(*) FROM recent_orders")).scalar_one())

    thread = threading.Thread(target=read_row_counts)
    thread.start()
    eventually(lambda: len(row_counts) > 10)
    swap_to_second_revision(live, new, logs)
    count_before = len(row_counts)
    eventually(lambda: len(row_counts) > count_before + 10)
    stop.set()
    thread.join()
    assert set(row_counts) == {len(expected_tables(logs)[0])}


def test_open_readers_delay_the_swap(
    mariadb_database: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that has read the live tables keeps them locked. The swap waits for it with repeated tries."""
    monkeypatch.setattr(mariadb, "RENAME_TIMEOUT", 1)
    logs = {event_partition(0): random_log(0, 30)}
    live = fill_live_tables(mariadb_database, logs)
    new = create_shadow_tables(live, second_revision(), "new")
    with open_engine(mariadb_database) as engine, engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM recent_orders")).all()
        with pytest.raises(DBAPIError) as busy:
            swap_to_second_revision(live, new, logs)
        assert retry_policy(busy.value) == "again"
        reader.rollback()
        assert read_tables(mariadb_database) == expected_tables(logs)
    swap_to_second_revision(live, new, logs)
    assert order_counts_by_buyer(mariadb_database) == expected_tables(logs)[1]


def test_one_run_prepares_at_a_time(mariadb_database: DatabaseAddress) -> None:
    """The second run waits as long as the first run's session lives."""
    with open_engine(mariadb_database) as engine:
        with (
            mariadb.exclusive_session(engine, "mine", 30),
            mariadb.exclusive_session(engine, "other", 30),
            pytest.raises(DBAPIError) as busy,
            mariadb.exclusive_session(engine, "mine", 0),
        ):
            pass
        assert retry_policy(busy.value) == "again"
        with mariadb.exclusive_session(engine, "mine", 30):
            pass


def test_triggers_are_refused_before_filling(mariadb_database: DatabaseAddress) -> None:
    """MariaDB renames no table with a trigger. The error comes before new tables are filled."""
    fill_live_tables(mariadb_database, {event_partition(0): random_log(0, 3)})
    with open_engine(mariadb_database) as engine, engine.begin() as db:
        dialect_of(db).check_swappable(db, ["recent_orders", "customers"])
        db.execute(text("CREATE TRIGGER mine AFTER INSERT ON customers FOR EACH ROW SET @x = 1"))
        with pytest.raises(ConfigurationError, match="table customers has trigger mine"):
            dialect_of(db).check_swappable(db, ["recent_orders", "customers"])


def test_foreign_keys_survive_a_swap(mariadb_database: DatabaseAddress) -> None:
    """Foreign keys, with and without a name, refer to the new tables."""
    logs, metadata = {event_partition(0): random_log(0, 30)}, MetaData()
    Table("customers", metadata, Column("customer", String, primary_key=True), Column("orders", Integer))
    to = ForeignKey("customers.customer", name="of_customer")
    Table("of", metadata, Column("customer", String, to), Column("other", ForeignKey("customers.customer")))
    loaded = replace(
        recent_orders(), projection=cqrs.Projection(lambda db, events: None, metadata, revision=2)
    )
    live = fill_live_tables(mariadb_database, logs)
    for number in range(2):
        new = create_shadow_tables(live, loaded, f"new {number}")
        swap_tables(live, new, lambda end_offsets: None)
        ((text_of,),) = [(row[1],) for row in query_rows(mariadb_database, "SHOW CREATE TABLE of")]
        assert "FOREIGN KEY (`customer`) REFERENCES `customers` (`customer`)" in text_of
        assert "`other` varchar(255)" in text_of
