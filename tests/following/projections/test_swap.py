import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, inspect, text
from sqlalchemy.dialects import mysql, postgresql, sqlite

import cqrs_cli as cqrs
from aggregates.order import Placed
from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.projections.control import CONTROL
from cqrs_cli.following.projections.database import new_place
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import DatabasePlace, ProjectionPlan
from cqrs_cli.following.projections.swap import raise_first, swap_tables
from cqrs_cli.following.projections.tables import clear_place, make_tables, place_exists
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.feeding import (
    Logs,
    errors,
    model,
    opened,
    plan,
    positions,
    projected,
    random_log,
    recent_orders,
    rows,
    source,
    take,
    told,
)
from tests.support import ROOT

INSERTS: dict[str, Any] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
    "mariadb": mysql.insert,
}


def second_revision() -> LoadedProjection:
    """Other tables: the orders have no index any more, the customers are called buyers."""
    first = recent_orders()
    metadata = MetaData()
    buyers = Table(
        "buyers",
        metadata,
        Column("customer", String, primary_key=True),
        Column("orders", Integer, nullable=False),
    )
    orders = Table(
        "recent_orders",
        metadata,
        Column("order_id", String, primary_key=True),
        Column("customer", String, nullable=False, index=True),
    )

    def project(db: Any, events: Any) -> None:
        for one in events:
            if isinstance(one.event, Placed):
                customer = one.event.customer
                more = {"orders": buyers.c.orders + 1}  # in one statement: two partitions may have a customer
                row = INSERTS[db.dialect.name](buyers).values(customer=customer, orders=1)
                if db.dialect.name == "mariadb":
                    db.execute(row.on_duplicate_key_update(more))
                else:
                    db.execute(row.on_conflict_do_update(index_elements=["customer"], set_=more))
                db.execute(insert(orders).values(order_id=one.aggregate_id, customer=customer))

    return replace(first, projection=cqrs.Projection(project, metadata, revision=2))


def begin_beside(live: ProjectionPlan, loaded: LoadedProjection, owner: str) -> ProjectionPlan:
    """New tables, empty."""
    new = replace(live, place=new_place(live.place, live.name), owner=owner)
    with opened(live.place) as engine:
        clear_place(engine, new.place)
    with opened(new.place) as engine:
        CONTROL.create_all(engine, checkfirst=False)
        make_tables(engine, loaded)
    take(new)
    return new


def buyers(place: DatabasePlace) -> dict[str, int]:
    return dict(rows(place, "SELECT customer, orders FROM buyers"))


def tables(place: DatabasePlace) -> set[str]:
    with opened(place) as engine:
        return set(inspect(engine).get_table_names())


def filled(place: DatabasePlace, logs: Logs, owner: str = "old") -> ProjectionPlan:
    """The live tables, with all that is in the logs."""
    live = plan(logs, place, owner)
    take(live, recent_orders())
    assert errors(projected(live, logs, recent_orders())) == []
    return live


@pytest.mark.pins("projected-once")
def test_new_tables_replace_the_live(place: DatabasePlace) -> None:
    logs = {source(p): random_log(p, 60) for p in range(2)}
    loaded, live = second_revision(), filled(place, logs)
    new = begin_beside(live, loaded, "new")
    half = {one: log[:30] for one, log in logs.items()}
    projected(replace(plan(half, new.place, "new")), half, loaded)
    assert told(place) == model(logs)  # served meanwhile

    def catch_up(targets: Mapping[EventPartition, int]) -> None:
        assert targets == live.targets
        raise_first(projected(replace(new, targets=targets), logs, loaded))

    swap_tables(live, new, catch_up)
    assert buyers(place) == model(logs)[1]
    assert tables(place) == {"recent_orders", "buyers", "cqrs_positions", "cqrs_projections"}
    assert rows(place, "SELECT DISTINCT owner FROM cqrs_positions") == [("new",)]
    assert rows(place, "SELECT revision FROM cqrs_projections") == [(2,)]
    with opened(place) as engine:
        assert [one["name"] for one in inspect(engine).get_indexes("recent_orders")] == [
            "ix_recent_orders_customer"
        ]
        assert not place_exists(engine, new.place)


@pytest.mark.pins("projected-once")
def test_older_run_finds_itself_replaced(place: DatabasePlace) -> None:
    logs = {source(0): random_log(0, 60)}
    half = {source(0): logs[source(0)][:30]}
    loaded, live = second_revision(), filled(place, half)
    new = begin_beside(live, loaded, "new")
    swap_tables(
        live, new, lambda targets: raise_first(projected(replace(new, targets=targets), half, loaded))
    )
    older = plan(logs, place, "old")
    (result,) = projected(older, logs, recent_orders())
    assert isinstance(result.error, TakenOverError)
    assert "run new took over" in str(result.error)
    newer = plan(logs, place, "new")
    assert errors(projected(newer, logs, loaded)) == []
    assert buyers(place) == model(logs)[1]


@pytest.mark.pins("projected-once")
def test_live_tables_stand_still_meanwhile(place: DatabasePlace) -> None:
    """A live projector that works on waits for the exchange, and finds then that it was taken over."""
    logs = {source(0): random_log(0, 60)}
    half = {source(0): logs[source(0)][:30]}
    loaded, live = second_revision(), filled(place, half)
    new = begin_beside(live, loaded, "new")
    older: list[subprocess.Popen[str]] = []

    def catch_up(targets: Mapping[EventPartition, int]) -> None:
        older.append(
            subprocess.Popen(
                [sys.executable, "-c", OLDER, place.url],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert older[0].stdout is not None
        assert older[0].stdout.readline() == "works\n"
        raise_first(projected(replace(new, targets=targets), half, loaded))
        assert positions(place) == {0: half[source(0)][-1].offset + 1}

    swap_tables(live, new, catch_up)
    out, _ = older[0].communicate(timeout=60)
    assert "run new took over" in out
    assert buyers(place) == model(half)[1]


OLDER = """
import sys
from cqrs_cli.following.projections.plan import DatabasePlace
from tests.following.projections.feeding import *
logs = {source(0): random_log(0, 60)}
class Tail(ListTail):
    def poll(self, most):
        print("works", flush=True)
        return super().poll(most)
made = plan(logs, DatabasePlace(sys.argv[1]), "old")
print(errors(projected(made, logs, recent_orders(), tail=lambda one, start: Tail(logs[one], start, 7))))
"""


def test_other_projections_stay(place: DatabasePlace) -> None:
    """Those in the same database keep tables and positions."""
    logs = {source(0): random_log(0, 30)}
    loaded, live = second_revision(), filled(place, logs)
    with opened(place) as engine, engine.begin() as db:
        db.execute(text("INSERT INTO cqrs_positions VALUES ('other', 'order.events', 0, 'id-1', 7, 'me')"))
    new = begin_beside(live, loaded, "new")
    swap_tables(
        live, new, lambda targets: raise_first(projected(replace(new, targets=targets), logs, loaded))
    )
    assert ("other", 7, "me") in rows(place, "SELECT projection, next_offset, owner FROM cqrs_positions")
