"""The promises of every database about a batch that fails: it is killed, its code raises, or a table was changed."""

import os
import signal
import subprocess
import sys

import pytest
from sqlalchemy import Connection, event, text

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.prepare import prepare_tables
from cqrs_cli.following.projections.stored_errors import StoredError
from cqrs_cli.following.projections.tables import create_control_tables, create_tables
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.projector_harness import (
    Events,
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
    take_over,
    with_project_function,
)
from tests.support import ROOT

KILLED_PROGRAM = """
import os, signal, sys
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.projector_harness import *
database, mark = DatabaseAddress(sys.argv[1]), int(sys.argv[2])
logs = {event_partition(partition): random_log(partition, 300) for partition in range(2)}
loaded = recent_orders()
calls = [0]
def project(db, events):
    half = len(events) // 2
    loaded.projection.project(db, events[:half])
    calls[0] += 1
    if calls[0] == mark:
        os.kill(os.getpid(), signal.SIGKILL)
    loaded.projection.project(db, events[half:])
results = run_projectors(make_plan(logs, database), logs, with_project_function(loaded, project))
sys.exit(bool(error_texts(results)))
"""


class MistakesContract:
    """A subclass has a fixture `database`: an empty database."""

    @pytest.mark.covers("projected-once")
    def test_raising_event_is_named(self, database: DatabaseAddress) -> None:
        """If the projection raises, all earlier events are written, and nothing of the event that is named."""
        logs, loaded = {event_partition(0): random_log(0, 60)}, recent_orders()
        plan = make_plan(logs, database)
        take_over(plan, loaded)
        bad = logs[event_partition(0)][33]

        def project(db: Connection, events: Events) -> None:
            loaded.projection.project(db, events)
            if any(event.offset == bad.offset for event in events):
                raise KeyError("price")

        (error,) = error_texts(
            run_projectors(
                plan, logs, with_project_function(loaded, project, metadata=loaded.projection.metadata)
            )
        )
        assert f"order.events:0@{bad.offset}" in error
        assert "KeyError: 'price'" in error
        good_events = {
            event_partition(0): [plan for plan in logs[event_partition(0)] if plan.offset < bad.offset]
        }
        assert read_tables(database) == expected_tables(good_events)
        assert next_offsets(database)[0] <= bad.offset
        ((kind, message, offset),) = query_rows(
            database, "SELECT type, message, event_offset FROM cqrs_errors"
        )
        assert (kind, offset) == ("KeyError", bad.offset) and "KeyError: 'price'" in message
        assert error_texts(run_projectors(plan, logs, loaded)) == []
        assert query_rows(database, "SELECT * FROM cqrs_errors") == []

    @pytest.mark.covers("projected-once")
    def test_stale_run_stores_no_error(self, database: DatabaseAddress) -> None:
        """Another run takes over while the failed run stores its error."""
        logs: dict[EventPartition, list[Record]] = {event_partition(0): []}
        plan, other_plan = make_plan(logs, database), make_plan(logs, database, owner="other")
        take_over(plan, recent_orders())

        def take_over_again(_: Connection, cursor: object, statement: str, *more: object) -> None:
            if "FROM cqrs_positions" in statement:
                take_over(other_plan)

        with open_engine(database) as engine:
            event.listen(engine, "after_cursor_execute", take_over_again)
            StoredError(engine, plan, event_partition(0)).store(CqrsError("it raised"), 7)
        assert query_rows(database, "SELECT owner FROM cqrs_positions") == [("other",)]
        assert query_rows(database, "SELECT * FROM cqrs_errors") == []

    @pytest.mark.parametrize("cls", [SystemExit, KeyboardInterrupt])
    def test_any_exception_ends_with_an_error(
        self, database: DatabaseAddress, cls: type[BaseException]
    ) -> None:
        logs, loaded = {event_partition(0): random_log(0, 20)}, recent_orders()
        plan = make_plan(logs, database)
        take_over(plan, loaded)

        def project(db: Connection, events: Events) -> None:
            raise cls

        (error,) = error_texts(run_projectors(plan, logs, with_project_function(loaded, project)))
        assert "raised on order." in error and cls.__name__ in error

    def test_databases_errors_name_the_event(self, database: DatabaseAddress) -> None:
        logs, loaded = {event_partition(0): random_log(0, 20)}, recent_orders()
        plan = make_plan(logs, database)
        take_over(plan, loaded)

        def project(db: Connection, events: Events) -> None:
            db.execute(text("INSERT INTO customers (customer, orders) VALUES ('x', NULL)"))

        (error,) = error_texts(run_projectors(plan, logs, with_project_function(loaded, project)))
        assert "raised on order." in error
        assert "IntegrityError" in error
        assert "INSERT" not in error

    @pytest.mark.covers("projected-once")
    @pytest.mark.parametrize("ending", ["commit", "rollback"])
    def test_transactions_cannot_be_ended(self, database: DatabaseAddress, ending: str) -> None:
        """A projection that commits is refused, because it would separate rows and position."""
        logs, loaded = {event_partition(0): random_log(0, 20)}, recent_orders()
        plan = make_plan(logs, database)
        take_over(plan, loaded)

        def project(db: Connection, events: Events) -> None:
            loaded.projection.project(db, events)
            getattr(db, ending)()

        (error,) = error_texts(run_projectors(plan, logs, with_project_function(loaded, project)))
        assert "a projection must not commit or roll back" in error
        assert read_tables(database) == ({}, {})
        assert next_offsets(database) == {0: 0}

    def test_changed_tables_are_named(self, database: DatabaseAddress) -> None:
        logs, loaded = {event_partition(0): random_log(0, 20)}, recent_orders()
        plan = make_plan(logs, database)
        take_over(plan, loaded)
        with open_engine(database) as engine, engine.begin() as db:
            db.execute(text("ALTER TABLE customers RENAME COLUMN orders TO number"))
        (result,) = run_projectors(plan, logs, loaded)
        assert isinstance(result.error, ConfigurationError)
        assert "table customers was changed: column 'orders' is missing" in str(result.error)

    def test_incomplete_tables_are_created_again(self, database: DatabaseAddress) -> None:
        """The existing tables are the projection's own."""
        loaded, uncut = recent_orders(), iter([True])

        def cut_off(_: Connection, cursor: object, statement: str, *more: object) -> None:
            if "CREATE TABLE" in statement and not next(uncut, False):
                raise CqrsError("cut off")

        with open_engine(database) as engine:
            create_control_tables(engine)
            event.listen(engine, "before_cursor_execute", cut_off)
            with pytest.raises(CqrsError, match="cut off"):
                create_tables(engine, loaded)
            event.remove(engine, "before_cursor_execute", cut_off)
            plan = make_plan({event_partition(0): []}, database)
            prepare_tables(plan, loaded, engine, False, {event_partition(0): 0}, engine.begin)
        assert read_tables(database) == ({}, {})
        assert query_rows(database, "SELECT owner FROM cqrs_positions") == [("me",)]

    @pytest.mark.slow
    @pytest.mark.covers("projected-once")
    def test_killed_batches_leave_nothing(self, database: DatabaseAddress) -> None:
        """After SIGKILL in the batches of several processes, the tables contain each event once."""
        logs = {event_partition(partition): random_log(partition, 300) for partition in range(2)}
        take_over(make_plan(logs, database), recent_orders())
        killed = 0
        for mark in [1, 2, 5, 17, 30, 10_000]:
            ran = subprocess.run(
                [sys.executable, "-c", KILLED_PROGRAM, database.url, str(mark)],
                cwd=ROOT,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            killed += ran.returncode == -signal.SIGKILL
        assert (killed, ran.returncode) == (5, 0)
        assert read_tables(database) == expected_tables(logs)
