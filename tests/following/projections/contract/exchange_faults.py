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
from cqrs_cli.following.projections.swap import raise_first, swap_tables
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.exchanging import (
    begin_beside,
    buyers,
    filled,
    second_revision,
)
from tests.following.projections.feeding import (
    model,
    opened,
    projected,
    random_log,
    recent_orders,
    rows,
    source,
    take,
    told,
)
from tests.support import ROOT

SWAPPING = """
import os, signal, sys
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.exchanging import *
from tests.following.projections.feeding import *
place = DatabaseAddress(sys.argv[1])
logs = {source(p): random_log(p, 60) for p in range(2)}
loaded = second_revision()
live = plan(logs, place, "old")
new = replace(live, place=dialect_of(place).beside(place, live.name), owner="new")
def catch_up(targets):
    raise_first(projected(replace(new, targets=targets), logs, loaded))
    os.kill(os.getpid(), signal.SIGKILL)
swap_tables(live, new, catch_up)
"""


class ExchangeFaultsContract:
    """A subclass has a fixture `place`: an empty database."""

    def test_another_builder_stops_the_exchange(self, place: DatabaseAddress) -> None:
        logs = {source(0): random_log(0, 30)}
        loaded, live = second_revision(), filled(place, logs)
        new = begin_beside(live, loaded, "new")
        take(replace(new, owner="other"))
        with pytest.raises(TakenOverError, match="run other took over the new tables"):
            swap_tables(live, new, lambda targets: None)
        assert told(place) == model(logs)
        assert rows(place, "SELECT owner FROM cqrs_positions") == [("old",)]

    def test_builder_without_its_tables_stops(self, place: DatabaseAddress) -> None:
        """A second rebuild cleared the new tables."""
        logs = {source(0): random_log(0, 30)}
        loaded, live = second_revision(), filled(place, logs)
        new = begin_beside(live, loaded, "new")
        with opened(place) as engine:
            dialect_of(place).clear(engine, new.place)
        (result,) = projected(new, logs, loaded)
        assert isinstance(result.error, TakenOverError)
        assert told(place) == model(logs)

    def test_failing_exchange_changes_nothing(self, place: DatabaseAddress) -> None:
        """On PostgreSQL, a view prevents dropping a live table. In any case all tables stay unchanged."""
        logs = {source(0): random_log(0, 30)}
        loaded, live = second_revision(), filled(place, logs)
        new = begin_beside(live, loaded, "new")

        def catch_up(targets: Mapping[EventPartition, int]) -> None:
            raise CqrsError("no")

        with pytest.raises(CqrsError, match="no"):
            swap_tables(live, new, catch_up)
        assert told(place) == model(logs)
        assert rows(place, "SELECT owner FROM cqrs_positions") == [("old",)]

    @pytest.mark.covers("projected-once")
    def test_older_code_takes_no_newer_tables(self, place: DatabaseAddress) -> None:
        """An older run cannot take over positions if the tables were swapped after it has read them."""
        logs = {source(0): random_log(0, 30)}
        live, loaded = filled(place, logs), second_revision()
        new = begin_beside(live, loaded, "new")
        older = replace(live, owner="older")
        with opened(place) as engine:

            def begin() -> Any:
                tail = replace(new, targets=live.targets)
                swap_tables(live, new, lambda targets: raise_first(projected(tail, logs, loaded)))
                return engine.begin()

            with pytest.raises(ConfigurationError, match="have revision 2, the code 1"):
                prepare_tables(older, recent_orders(), engine, False, dict.fromkeys(older.sources, 0), begin)
        assert rows(place, "SELECT owner FROM cqrs_positions") == [("new",)]
        assert buyers(place) == model(logs)[1]

    @pytest.mark.covers("projected-once")
    def test_killed_exchange_changes_nothing(self, place: DatabaseAddress) -> None:
        logs = {source(p): random_log(p, 60) for p in range(2)}
        loaded, live = second_revision(), filled(place, logs)
        new = begin_beside(live, loaded, "new")
        ran = subprocess.run([sys.executable, "-c", SWAPPING, place.url], cwd=ROOT, check=False)
        assert ran.returncode == -signal.SIGKILL
        assert told(place) == model(logs)
        swap_tables(
            live, new, lambda targets: raise_first(projected(replace(new, targets=targets), logs, loaded))
        )
        assert buyers(place) == model(logs)[1]
