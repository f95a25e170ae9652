"""The promises of every database about a table swap."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

from cqrs_cli.errors import CqrsError, TakenOverError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import CONTROL
from cqrs_cli.following.projections.stored_errors import StoredError
from cqrs_cli.following.projections.swap import raise_first_error, swap_tables
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.projector_harness import (
    error_texts,
    event_partition,
    expected_tables,
    make_plan,
    next_offsets,
    open_engine,
    query_rows,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
)
from tests.following.projections.table_swaps import (
    catch_up,
    create_shadow_tables,
    fill_live_tables,
    has_shadow_tables,
    order_counts_by_buyer,
    referencing_tables,
    second_revision,
    swap_to_second_revision,
    table_names,
)
from tests.support import ROOT

OLDER_PROGRAM = """
import sys
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.projector_harness import *
logs = {event_partition(0): random_log(0, 60)}
class Tail(ListTail):
    def poll(self, batch):
        print("works", flush=True)
        return super().poll(batch)
plan = make_plan(logs, DatabaseAddress(sys.argv[1]), "old")
print("begins", flush=True)
def tail_of(partition, start):
    return Tail(logs[partition], start, 7)
print(error_texts(run_projectors(plan, logs, recent_orders(), tail=tail_of)))
"""


class SwapContract:
    """A subclass has a fixture `database`: an empty database.

    `meanwhile`: what another process can do during the swap; "works" if it can read.
    """

    meanwhile = "works"

    @pytest.mark.covers("projected-once")
    def test_new_tables_replace_the_live(self, database: DatabaseAddress) -> None:
        logs = {event_partition(partition): random_log(partition, 60) for partition in range(2)}
        loaded, live = second_revision(), fill_live_tables(database, logs)
        new = create_shadow_tables(live, loaded, "new")
        half = {plan: log[:30] for plan, log in logs.items()}
        run_projectors(replace(make_plan(half, new.database, "new")), half, loaded)
        assert read_tables(database) == expected_tables(logs)  # still served

        def catch_up(end_offsets: Mapping[EventPartition, int]) -> None:
            assert end_offsets == live.end_offsets
            raise_first_error(run_projectors(replace(new, end_offsets=end_offsets), logs, loaded))

        with open_engine(database) as engine:
            stored_error = StoredError(engine, live, event_partition(0))
            stored_error.store(CqrsError("it raised"), 7)
        assert stored_error.exists
        swap_tables(live, new, catch_up)
        assert order_counts_by_buyer(database) == expected_tables(logs)[1]
        assert table_names(database) == {"recent_orders", "buyers", *CONTROL.tables}
        assert query_rows(database, "SELECT * FROM cqrs_errors") == []
        assert query_rows(database, "SELECT DISTINCT owner FROM cqrs_positions") == [("new",)]
        assert query_rows(database, "SELECT revision FROM cqrs_projections") == [(2,)]
        with open_engine(database) as engine:
            (index,) = inspect(engine).get_indexes("recent_orders")
        assert index["name"] == "ix_recent_orders_customer"
        assert not has_shadow_tables(database, new.database)

    @pytest.mark.covers("projected-once")
    def test_older_run_finds_itself_replaced(self, database: DatabaseAddress) -> None:
        logs = {event_partition(0): random_log(0, 60)}
        half = {event_partition(0): logs[event_partition(0)][:30]}
        loaded, live = second_revision(), fill_live_tables(database, half)
        new = create_shadow_tables(live, loaded, "new")
        swap_tables(
            live,
            new,
            lambda end_offsets: raise_first_error(
                run_projectors(replace(new, end_offsets=end_offsets), half, loaded)
            ),
        )
        older = make_plan(logs, database, "old")
        (result,) = run_projectors(older, logs, recent_orders())
        assert isinstance(result.error, TakenOverError)
        assert "run new took over" in str(result.error)
        newer = make_plan(logs, database, "new")
        assert error_texts(run_projectors(newer, logs, loaded)) == []
        assert order_counts_by_buyer(database) == expected_tables(logs)[1]

    @pytest.mark.covers("projected-once")
    def test_live_tables_stay_unchanged_during_swap(self, database: DatabaseAddress) -> None:
        """An active live projector waits for the table swap, and then finds that it was taken over."""
        logs = {event_partition(0): random_log(0, 60)}
        half = {event_partition(0): logs[event_partition(0)][:30]}
        loaded, live = second_revision(), fill_live_tables(database, half)
        new = create_shadow_tables(live, loaded, "new")
        older: list[subprocess.Popen[str]] = []

        def catch_up(end_offsets: Mapping[EventPartition, int]) -> None:
            older.append(
                subprocess.Popen(
                    [sys.executable, "-c", OLDER_PROGRAM, database.url],
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            assert older[0].stdout is not None
            assert f"{self.meanwhile}\n" in iter(older[0].stdout.readline, "")
            raise_first_error(run_projectors(replace(new, end_offsets=end_offsets), half, loaded))
            assert next_offsets(database) == {0: half[event_partition(0)][-1].offset + 1}

        swap_tables(live, new, catch_up)
        out, _ = older[0].communicate(timeout=60)
        assert "run new took over" in out
        assert order_counts_by_buyer(database) == expected_tables(half)[1]

    def test_other_projections_stay(self, database: DatabaseAddress) -> None:
        """Other projections in the same database keep tables and positions."""
        logs = {event_partition(0): random_log(0, 30)}
        loaded, live = second_revision(), fill_live_tables(database, logs)
        with open_engine(database) as engine, engine.begin() as db:
            db.execute(
                text(
                    "INSERT INTO cqrs_positions"
                    " VALUES ('other', 'order.events', 0, 'id-1', 7, 'me', NULL, NULL)"
                )
            )
        new = create_shadow_tables(live, loaded, "new")
        swap_tables(
            live,
            new,
            lambda end_offsets: raise_first_error(
                run_projectors(replace(new, end_offsets=end_offsets), logs, loaded)
            ),
        )
        assert ("other", 7, "me") in query_rows(
            database, "SELECT projection, next_offset, owner FROM cqrs_positions"
        )

    @pytest.mark.covers("projected-once")
    def test_finished_swap_is_recognised(self, database: DatabaseAddress) -> None:
        """A run whose last reply was lost may repeat its table swap. Another run may not."""
        logs = {event_partition(0): random_log(0, 30)}
        live = fill_live_tables(database, logs)
        new = create_shadow_tables(live, second_revision(), "new")
        for _ in range(2):
            swap_to_second_revision(live, new, logs)
        assert order_counts_by_buyer(database) == expected_tables(logs)[1]
        with pytest.raises(TakenOverError, match="run new took over"):
            swap_to_second_revision(live, replace(new, owner="another"), logs)

    def test_foreign_keys_refer_to_new_tables(self, database: DatabaseAddress) -> None:
        """Foreign keys, with and without a name, refer to the new tables."""
        logs, loaded = {event_partition(0): random_log(0, 30)}, referencing_tables()
        live = fill_live_tables(database, logs)
        for number in range(2):
            new = create_shadow_tables(live, loaded, f"new {number}")
            swap_tables(live, new, partial(catch_up, new, logs, loaded))
        assert order_counts_by_buyer(database) == dict.fromkeys(expected_tables(logs)[1], 1)
        with (
            open_engine(database) as engine,
            pytest.raises(IntegrityError),
            engine.begin() as db,
        ):
            db.execute(text("INSERT INTO an_order VALUES ('o', 'nobody', 'nobody')"))
