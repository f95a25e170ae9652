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
from cqrs_cli.following.projections.failures import remedy
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.swap import raise_first, swap_tables
from tests.following.projections.exchanging import (
    begin_beside,
    buyers,
    exchange,
    filled,
    is_beside,
    second_revision,
)
from tests.following.projections.feeding import (
    Logs,
    errors,
    model,
    opened,
    plan,
    projected,
    random_log,
    recent_orders,
    rows,
    source,
    told,
)
from tests.support import ROOT
from tests.support.mariadb import MariaDb
from tests.support.waiting import eventually

pytestmark = pytest.mark.database


@contextmanager
def prepared(place: DatabaseAddress) -> Iterator[None]:
    """Prepare the tables as the next run does at its start."""
    dialect = dialect_of(place)
    with (
        opened(place) as engine,
        dialect.preparing(engine, "recent_orders", dialect.beside(place, "recent_orders")),
    ):
        yield


SWAPPING = """
import os, signal, sys
from cqrs_cli.following.projections.databases import mariadb
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.exchanging import *
from tests.following.projections.feeding import *
place, point = DatabaseAddress(sys.argv[1]), sys.argv[2]
logs = {source(p): random_log(p, 90)[:60] for p in range(2)}
live = plan(logs, place, "old")
new = replace(live, place=dialect_of(place).beside(place, live.name), owner="new")
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
rename = mariadb.rename_tables
def rename_and_die(*given):
    rename(*given)
    die()
if point == "fenced":
    mariadb.rename_tables = die
elif point == "renamed":
    mariadb.rename_tables = rename_and_die
else:
    mariadb.MariaDb.drop = die
exchange(live, new, logs)
"""


@pytest.mark.covers("projected-once")
@pytest.mark.parametrize("crash", ["client", "server"])
@pytest.mark.parametrize("point", ["fenced", "renamed", "settled"])
def test_cut_off_exchange_is_whole(
    maria_server: MariaDb, maria: DatabaseAddress, point: str, crash: str
) -> None:
    """After a kill at any step of a swap, the older run is fenced, and the next run finds complete tables."""
    more = {source(p): random_log(p, 90) for p in range(2)}
    logs = {one: log[:60] for one, log in more.items()}
    live = filled(maria, logs)
    begin_beside(live, second_revision(), "new")
    ran = subprocess.run([sys.executable, "-c", SWAPPING, maria.url, point], cwd=ROOT, check=False)
    assert ran.returncode == -signal.SIGKILL
    if crash == "server":
        maria_server.kill()
        maria_server.start()
    for error in projected(plan(more, maria, "old"), more, recent_orders()):
        assert isinstance(error.error, TakenOverError)
    if point == "fenced":
        assert told(maria) == model(logs)
    else:
        assert buyers(maria) == model(logs)[1]
    with prepared(maria):
        pass
    if point == "fenced":
        assert rows(maria, "SELECT revision FROM cqrs_projections") == [(1,)]
        exchange(live, replace(live, place=dialect_of(maria).beside(maria, live.name), owner="new"), logs)
    assert rows(maria, "SELECT revision FROM cqrs_projections") == [(2,)]
    assert buyers(maria) == model(logs)[1]
    assert not is_beside(maria, dialect_of(maria).beside(maria, live.name))
    assert errors(projected(plan(more, maria, "new"), more, second_revision())) == []
    assert buyers(maria) == model(more)[1]


@pytest.mark.slow
@pytest.mark.covers("projected-once")
def test_server_killed_in_an_exchange(maria_server: MariaDb, maria: DatabaseAddress) -> None:
    """After the server is killed at any moment of a swap, all tables are old, or all are new."""
    logs = {source(p): random_log(p, 30) for p in range(2)}
    live, outcomes, wait = filled(maria, logs), set[int](), 0.05
    for number in range(12):
        new = begin_beside(live, second_revision(), f"new {number}")
        raise_first(projected(replace(new, targets=live.targets), logs, second_revision()))
        thread = threading.Thread(target=failing_exchange, args=(live, new, logs))
        thread.start()
        thread.join(wait)
        maria_server.kill()
        maria_server.start()
        thread.join()
        with prepared(maria):
            pass
        ((revision,),) = rows(maria, "SELECT revision FROM cqrs_projections")
        outcomes.add(revision)
        wait *= 1.6 if revision == 1 else 0.6  # aims at the moment when the tables are renamed
        if revision == 1:
            assert told(maria) == model(logs)
            continue
        assert buyers(maria) == model(logs)[1]
        with opened(maria) as engine, engine.begin() as db:
            db.execute(text("DROP TABLE recent_orders, buyers, cqrs_positions, cqrs_projections"))
        live = filled(maria, logs)
    assert outcomes == {1, 2}


def failing_exchange(live: ProjectionPlan, new: ProjectionPlan, logs: Logs) -> None:
    with suppress(SQLAlchemyError, CqrsError):
        exchange(live, new, logs)


def test_readers_miss_no_table(maria: DatabaseAddress) -> None:
    """Readers read all the time: each read finds a table with all rows."""
    logs = {source(0): random_log(0, 60)}
    live = filled(maria, logs)
    new = begin_beside(live, second_revision(), "new")
    stop, seen = threading.Event(), list[int]()

    def look() -> None:
        with opened(maria) as engine:
            while not stop.is_set():
                with engine.connect() as db:
                    seen.append(db.execute(text("SELECT count(*) FROM recent_orders")).scalar_one())

    thread = threading.Thread(target=look)
    thread.start()
    eventually(lambda: len(seen) > 10)
    exchange(live, new, logs)
    looked = len(seen)
    eventually(lambda: len(seen) > looked + 10)
    stop.set()
    thread.join()
    assert set(seen) == {len(model(logs)[0])}


def test_open_readers_delay_the_exchange(maria: DatabaseAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that has read the live tables keeps them locked. The swap waits for it with repeated tries."""
    monkeypatch.setattr(mariadb, "TABLE_WAIT", 1)
    logs = {source(0): random_log(0, 30)}
    live = filled(maria, logs)
    new = begin_beside(live, second_revision(), "new")
    with opened(maria) as engine, engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM recent_orders")).all()
        with pytest.raises(DBAPIError) as busy:
            exchange(live, new, logs)
        assert remedy(busy.value) == "again"
        reader.rollback()
        assert told(maria) == model(logs)
    exchange(live, new, logs)
    assert buyers(maria) == model(logs)[1]


def test_one_run_prepares_at_a_time(maria: DatabaseAddress) -> None:
    """The second run waits as long as the first run's session lives."""
    with opened(maria) as engine:
        with (
            mariadb.exclusively(engine, "mine", 30),
            mariadb.exclusively(engine, "other", 30),
            pytest.raises(DBAPIError) as busy,
            mariadb.exclusively(engine, "mine", 0),
        ):
            pass
        assert remedy(busy.value) == "again"
        with mariadb.exclusively(engine, "mine", 30):
            pass


def test_triggers_are_refused_before(maria: DatabaseAddress) -> None:
    """MariaDB renames no table with a trigger. The error comes before new tables are filled."""
    filled(maria, {source(0): random_log(0, 3)})
    with opened(maria) as engine, engine.begin() as db:
        dialect_of(db).check_exchangeable(db, ["recent_orders", "customers"])
        db.execute(text("CREATE TRIGGER mine AFTER INSERT ON customers FOR EACH ROW SET @x = 1"))
        with pytest.raises(ConfigurationError, match="table customers has trigger mine"):
            dialect_of(db).check_exchangeable(db, ["recent_orders", "customers"])


def test_tables_refer_to_each_other_still(maria: DatabaseAddress) -> None:
    """Foreign keys, with and without a name, refer to the new tables."""
    logs, metadata = {source(0): random_log(0, 30)}, MetaData()
    Table("customers", metadata, Column("customer", String, primary_key=True), Column("orders", Integer))
    to = ForeignKey("customers.customer", name="of_customer")
    Table("of", metadata, Column("customer", String, to), Column("other", ForeignKey("customers.customer")))
    loaded = replace(
        recent_orders(), projection=cqrs.Projection(lambda db, events: None, metadata, revision=2)
    )
    live = filled(maria, logs)
    for number in range(2):
        new = begin_beside(live, loaded, f"new {number}")
        swap_tables(live, new, lambda targets: None)
        ((text_of,),) = [(row[1],) for row in rows(maria, "SHOW CREATE TABLE of")]
        assert "FOREIGN KEY (`customer`) REFERENCES `customers` (`customer`)" in text_of
        assert "`other` varchar(255)" in text_of
