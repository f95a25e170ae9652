"""The promises of every database about a table swap that fails or is killed: it changes nothing."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cqrs_cli.errors import ConfigurationError, CqrsError, TakenOverError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.prepare import prepare_tables
from cqrs_cli.following.projections.swap import raise_first_error, swap_tables
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.projector_harness import (
    event_partition,
    expected_tables,
    open_engine,
    query_rows,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
)
from tests.following.projections.table_swaps import (
    create_shadow_tables,
    fill_live_tables,
    order_counts_by_buyer,
    second_revision,
)
from tests.support import ROOT

SWAP_PROGRAM = """
import os, signal, sys
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.table_swaps import *
from tests.following.projections.projector_harness import *
database = DatabaseAddress(sys.argv[1])
logs = {event_partition(partition): random_log(partition, 60) for partition in range(2)}
loaded = second_revision()
live = make_plan(logs, database, "old")
new = replace(live, database=dialect_of(database).shadow_address(database, live.name), owner="new")
def catch_up(end_offsets):
    raise_first_error(run_projectors(replace(new, end_offsets=end_offsets), logs, loaded))
    os.kill(os.getpid(), signal.SIGKILL)
swap_tables(live, new, catch_up)
"""


class SwapFaultsContract:
    """A subclass has a fixture `database`: an empty database."""

    def test_another_builder_stops_the_swap(self, database: DatabaseAddress) -> None:
        logs = {event_partition(0): random_log(0, 30)}
        loaded, live = second_revision(), fill_live_tables(database, logs)
        new = create_shadow_tables(live, loaded, "new")
        take_over(replace(new, owner="other"))
        with pytest.raises(TakenOverError, match="run other took over the new tables"):
            swap_tables(live, new, lambda end_offsets: None)
        assert read_tables(database) == expected_tables(logs)
        assert query_rows(database, "SELECT owner FROM cqrs_positions") == [("old",)]

    def test_builder_without_its_tables_stops(self, database: DatabaseAddress) -> None:
        """A second rebuild cleared the new tables."""
        logs = {event_partition(0): random_log(0, 30)}
        loaded, live = second_revision(), fill_live_tables(database, logs)
        new = create_shadow_tables(live, loaded, "new")
        with open_engine(database) as engine:
            dialect_of(database).reset_shadow_tables(engine, new.database)
        (result,) = run_projectors(new, logs, loaded)
        assert isinstance(result.error, TakenOverError)
        assert read_tables(database) == expected_tables(logs)

    def test_failing_swap_changes_nothing(self, database: DatabaseAddress) -> None:
        """On PostgreSQL, a view prevents dropping a live table. In any case all tables stay unchanged."""
        logs = {event_partition(0): random_log(0, 30)}
        loaded, live = second_revision(), fill_live_tables(database, logs)
        new = create_shadow_tables(live, loaded, "new")

        def catch_up(end_offsets: Mapping[EventPartition, int]) -> None:
            raise CqrsError("no")

        with pytest.raises(CqrsError, match="no"):
            swap_tables(live, new, catch_up)
        assert read_tables(database) == expected_tables(logs)
        assert query_rows(database, "SELECT owner FROM cqrs_positions") == [("old",)]

    @pytest.mark.covers("projected-once")
    def test_older_code_takes_no_newer_tables(self, database: DatabaseAddress) -> None:
        """An older run cannot take over positions if the tables were swapped after it has read them."""
        logs = {event_partition(0): random_log(0, 30)}
        live, loaded = fill_live_tables(database, logs), second_revision()
        new = create_shadow_tables(live, loaded, "new")
        older = replace(live, owner="older")
        with open_engine(database) as engine:

            def begin() -> Any:
                tail = replace(new, end_offsets=live.end_offsets)
                swap_tables(
                    live, new, lambda end_offsets: raise_first_error(run_projectors(tail, logs, loaded))
                )
                return engine.begin()

            with pytest.raises(ConfigurationError, match="have revision 2, the code has revision 1"):
                prepare_tables(older, recent_orders(), engine, False, dict.fromkeys(older.sources, 0), begin)
        assert query_rows(database, "SELECT owner FROM cqrs_positions") == [("new",)]
        assert order_counts_by_buyer(database) == expected_tables(logs)[1]

    @pytest.mark.covers("projected-once")
    def test_killed_swap_changes_nothing(self, database: DatabaseAddress) -> None:
        logs = {event_partition(partition): random_log(partition, 60) for partition in range(2)}
        loaded, live = second_revision(), fill_live_tables(database, logs)
        new = create_shadow_tables(live, loaded, "new")
        process = subprocess.run([sys.executable, "-c", SWAP_PROGRAM, database.url], cwd=ROOT, check=False)
        assert process.returncode == -signal.SIGKILL
        assert read_tables(database) == expected_tables(logs)
        swap_tables(
            live,
            new,
            lambda end_offsets: raise_first_error(
                run_projectors(replace(new, end_offsets=end_offsets), logs, loaded)
            ),
        )
        assert order_counts_by_buyer(database) == expected_tables(logs)[1]
