"""The promises of every database about a batch that fails: it is killed, its code raises, or a table was changed."""

import os
import signal
import subprocess
import sys

import pytest
from sqlalchemy import Connection, event, text

from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.prepare import prepare_tables
from cqrs_cli.following.projections.tables import make_control, make_tables
from tests.following.projections.feeding import (
    Events,
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
    with_project,
)
from tests.support import ROOT

KILLED = """
import os, signal, sys
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.feeding import *
place, mark = DatabaseAddress(sys.argv[1]), int(sys.argv[2])
logs = {source(p): random_log(p, 300) for p in range(2)}
loaded = recent_orders()
seen = [0]
def project(db, events):
    half = len(events) // 2
    loaded.projection.project(db, events[:half])
    seen[0] += 1
    if seen[0] == mark:
        os.kill(os.getpid(), signal.SIGKILL)
    loaded.projection.project(db, events[half:])
results = projected(plan(logs, place), logs, with_project(loaded, project))
sys.exit(bool(errors(results)))
"""


class MistakesContract:
    """A subclass has a fixture `place`: an empty database."""

    @pytest.mark.covers("projected-once")
    def test_raising_event_is_named(self, place: DatabaseAddress) -> None:
        """If the projection raises, all earlier events are written, and nothing of the event that is named."""
        logs, loaded = {source(0): random_log(0, 60)}, recent_orders()
        made = plan(logs, place)
        take(made, loaded)
        bad = logs[source(0)][33]

        def project(db: Connection, events: Events) -> None:
            loaded.projection.project(db, events)
            if any(event.offset == bad.offset for event in events):
                raise KeyError("price")

        (said,) = errors(
            projected(made, logs, with_project(loaded, project, metadata=loaded.projection.metadata))
        )
        assert f"order.events:0@{bad.offset}" in said
        assert "KeyError: 'price'" in said
        before = {source(0): [one for one in logs[source(0)] if one.offset < bad.offset]}
        assert told(place) == model(before)
        assert positions(place)[0] <= bad.offset

    def test_databases_errors_name_the_event(self, place: DatabaseAddress) -> None:
        logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
        made = plan(logs, place)
        take(made, loaded)

        def project(db: Connection, events: Events) -> None:
            db.execute(text("INSERT INTO customers (customer, orders) VALUES ('x', NULL)"))

        (said,) = errors(projected(made, logs, with_project(loaded, project)))
        assert "raised on order." in said
        assert "IntegrityError" in said
        assert "INSERT" not in said

    @pytest.mark.covers("projected-once")
    @pytest.mark.parametrize("ending", ["commit", "rollback"])
    def test_transactions_cannot_be_ended(self, place: DatabaseAddress, ending: str) -> None:
        """A projection that commits is refused, because it would separate rows and position."""
        logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
        made = plan(logs, place)
        take(made, loaded)

        def project(db: Connection, events: Events) -> None:
            loaded.projection.project(db, events)
            getattr(db, ending)()

        (said,) = errors(projected(made, logs, with_project(loaded, project)))
        assert "a projection neither commits nor rolls back" in said
        assert told(place) == ({}, {})
        assert positions(place) == {0: 0}

    def test_changed_tables_are_named(self, place: DatabaseAddress) -> None:
        logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
        made = plan(logs, place)
        take(made, loaded)
        with opened(place) as engine, engine.begin() as db:
            db.execute(text("ALTER TABLE customers RENAME COLUMN orders TO number"))
        (result,) = projected(made, logs, loaded)
        assert isinstance(result.error, ConfigurationError)
        assert "somebody changed table customers: it has no column 'orders'" in str(result.error)

    def test_tables_half_made_are_made_again(self, place: DatabaseAddress) -> None:
        """The existing tables are the projection's own."""
        loaded, uncut = recent_orders(), iter([True])

        def cut_off(_: Connection, cursor: object, statement: str, *more: object) -> None:
            if "CREATE TABLE" in statement and not next(uncut, False):
                raise CqrsError("cut off")

        with opened(place) as engine:
            make_control(engine)
            event.listen(engine, "before_cursor_execute", cut_off)
            with pytest.raises(CqrsError, match="cut off"):
                make_tables(engine, loaded)
            event.remove(engine, "before_cursor_execute", cut_off)
            one = plan({source(0): []}, place)
            prepare_tables(one, loaded, engine, False, {source(0): 0}, engine.begin)
        assert told(place) == ({}, {})
        assert rows(place, "SELECT owner FROM cqrs_positions") == [("me",)]

    @pytest.mark.slow
    @pytest.mark.covers("projected-once")
    def test_killed_batches_leave_nothing(self, place: DatabaseAddress) -> None:
        """After SIGKILL in the batches of several processes, the tables contain each event once."""
        logs = {source(p): random_log(p, 300) for p in range(2)}
        take(plan(logs, place), recent_orders())
        killed = 0
        for mark in [1, 2, 5, 17, 30, 10_000]:
            ran = subprocess.run(
                [sys.executable, "-c", KILLED, place.url, str(mark)],
                cwd=ROOT,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            killed += ran.returncode == -signal.SIGKILL
        assert (killed, ran.returncode) == (5, 0)
        assert told(place) == model(logs)
