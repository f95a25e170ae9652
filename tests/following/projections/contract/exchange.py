"""The promises of every database about a table swap."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.swap import raise_first, swap_tables
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.exchanging import (
    begin_beside,
    buyers,
    catch_up,
    exchange,
    filled,
    is_beside,
    referring,
    second_revision,
    tables,
)
from tests.following.projections.feeding import (
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
    told,
)
from tests.support import ROOT

OLDER = """
import sys
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.feeding import *
logs = {source(0): random_log(0, 60)}
class Tail(ListTail):
    def poll(self, most):
        print("works", flush=True)
        return super().poll(most)
made = plan(logs, DatabaseAddress(sys.argv[1]), "old")
print("begins", flush=True)
print(errors(projected(made, logs, recent_orders(), tail=lambda one, start: Tail(logs[one], start, 7))))
"""


class ExchangeContract:
    """A subclass has a fixture `place`: an empty database.

    `meanwhile` is the progress of another process during a table swap; it "works" if it can read.
    """

    meanwhile = "works"

    @pytest.mark.covers("projected-once")
    def test_new_tables_replace_the_live(self, place: DatabaseAddress) -> None:
        logs = {source(p): random_log(p, 60) for p in range(2)}
        loaded, live = second_revision(), filled(place, logs)
        new = begin_beside(live, loaded, "new")
        half = {one: log[:30] for one, log in logs.items()}
        projected(replace(plan(half, new.place, "new")), half, loaded)
        assert told(place) == model(logs)  # still served

        def catch_up(targets: Mapping[EventPartition, int]) -> None:
            assert targets == live.targets
            raise_first(projected(replace(new, targets=targets), logs, loaded))

        swap_tables(live, new, catch_up)
        assert buyers(place) == model(logs)[1]
        assert tables(place) == {"recent_orders", "buyers", "cqrs_positions", "cqrs_projections"}
        assert rows(place, "SELECT DISTINCT owner FROM cqrs_positions") == [("new",)]
        assert rows(place, "SELECT revision FROM cqrs_projections") == [(2,)]
        with opened(place) as engine:
            (index,) = inspect(engine).get_indexes("recent_orders")
        assert index["name"] == "ix_recent_orders_customer"
        assert not is_beside(place, new.place)

    @pytest.mark.covers("projected-once")
    def test_older_run_finds_itself_replaced(self, place: DatabaseAddress) -> None:
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

    @pytest.mark.covers("projected-once")
    def test_live_tables_stand_still_meanwhile(self, place: DatabaseAddress) -> None:
        """An active live projector waits for the table swap, and then finds that it was taken over."""
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
            assert f"{self.meanwhile}\n" in iter(older[0].stdout.readline, "")
            raise_first(projected(replace(new, targets=targets), half, loaded))
            assert positions(place) == {0: half[source(0)][-1].offset + 1}

        swap_tables(live, new, catch_up)
        out, _ = older[0].communicate(timeout=60)
        assert "run new took over" in out
        assert buyers(place) == model(half)[1]

    def test_other_projections_stay(self, place: DatabaseAddress) -> None:
        """Other projections in the same database keep tables and positions."""
        logs = {source(0): random_log(0, 30)}
        loaded, live = second_revision(), filled(place, logs)
        with opened(place) as engine, engine.begin() as db:
            db.execute(
                text("INSERT INTO cqrs_positions VALUES ('other', 'order.events', 0, 'id-1', 7, 'me')")
            )
        new = begin_beside(live, loaded, "new")
        swap_tables(
            live, new, lambda targets: raise_first(projected(replace(new, targets=targets), logs, loaded))
        )
        assert ("other", 7, "me") in rows(place, "SELECT projection, next_offset, owner FROM cqrs_positions")

    @pytest.mark.covers("projected-once")
    def test_finished_exchange_is_found(self, place: DatabaseAddress) -> None:
        """A run whose last reply was lost may repeat its table swap. Another run may not."""
        logs = {source(0): random_log(0, 30)}
        live = filled(place, logs)
        new = begin_beside(live, second_revision(), "new")
        for _ in range(2):
            exchange(live, new, logs)
        assert buyers(place) == model(logs)[1]
        with pytest.raises(TakenOverError, match="run new took over"):
            exchange(live, replace(new, owner="another"), logs)

    def test_tables_refer_to_each_other_still(self, place: DatabaseAddress) -> None:
        """Foreign keys, with and without a name, refer to the new tables."""
        logs, loaded = {source(0): random_log(0, 30)}, referring()
        live = filled(place, logs)
        for number in range(2):
            new = begin_beside(live, loaded, f"new {number}")
            swap_tables(live, new, partial(catch_up, new, logs, loaded))
        assert buyers(place) == dict.fromkeys(model(logs)[1], 1)
        with (
            opened(place) as engine,
            pytest.raises(IntegrityError),
            engine.begin() as db,
        ):
            db.execute(text("INSERT INTO an_order VALUES ('o', 'nobody', 'nobody')"))
