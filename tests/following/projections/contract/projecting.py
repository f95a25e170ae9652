"""The promises of every database: each event once, in order, by one run at a time."""

import sqlite3
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from cqrs_cli.errors import ConfigurationError, NoOutcomeError, TakenOverError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.projections import wait
from tests.following.projections.projector_harness import (
    Events,
    ListTail,
    error_texts,
    event_partition,
    expected_tables,
    make_plan,
    next_offsets,
    open_engine,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
    with_project_function,
)


class ProjectingContract:
    """A subclass has a fixture `database`: an empty database. `count` is the number of events per partition."""

    count = 200

    @pytest.mark.covers("projected-once")
    @pytest.mark.parametrize("batch", [1, 7, 1000])
    def test_rows_equal_the_sequential_model(self, database: DatabaseAddress, batch: int) -> None:
        """Four partitions, projected concurrently, give the rows of a sequential model."""
        logs = {event_partition(partition): random_log(partition, self.count) for partition in range(4)}
        loaded, plan = recent_orders(), make_plan(logs, database)
        take_over(plan, loaded)
        assert error_texts(run_projectors(plan, logs, loaded, batch)) == []
        assert read_tables(database) == expected_tables(logs)
        assert next_offsets(database) == {
            plan.partition: target for plan, target in (plan.end_offsets or {}).items()
        }

    @pytest.mark.covers("projected-once")
    def test_stale_projectors_write_nothing(self, database: DatabaseAddress) -> None:
        logs = {event_partition(partition): random_log(partition, 50) for partition in range(2)}
        loaded, plan = recent_orders(), make_plan(logs, database)
        take_over(plan, loaded)
        take_over(make_plan(logs, database, owner="other"))
        results = run_projectors(plan, logs, loaded)
        assert all(isinstance(result.error, TakenOverError) for result in results)
        assert "run other took over projection recent_orders" in error_texts(results)[0]
        assert read_tables(database) == ({}, {})

    @pytest.mark.covers("projected-once")
    def test_takeover_in_a_batch_stops_it(self, database: DatabaseAddress) -> None:
        """A takeover waits for the batch that holds the row's lock, and the next batch of the old run fails."""
        logs = {event_partition(0): random_log(0, 40)}
        loaded, plan = recent_orders(), make_plan(logs, database)
        take_over(plan, loaded)
        other = make_plan(logs, database, owner="other")
        takeovers: list[bool] = []

        class Tail(ListTail):
            def poll(self, batch: int) -> Any:
                if self._position > 20 and not takeovers:
                    takeovers.append(True)
                    take_over(other)
                return super().poll(batch)

        results = run_projectors(plan, logs, loaded, tail=lambda plan, start: Tail(logs[plan], start, 7))
        assert isinstance(results[0].error, TakenOverError)
        assert error_texts(run_projectors(other, logs, loaded)) == []
        assert read_tables(database) == expected_tables(logs)

    def test_idle_owners_notice_a_takeover(self, database: DatabaseAddress) -> None:
        """Without new events, no batch shows the takeover."""
        logs = {event_partition(0): random_log(0, 10)}
        loaded, plan = (
            recent_orders(),
            replace(make_plan(logs, database), end_offsets=None, ownership_interval=0.0),
        )
        take_over(plan, loaded)

        class Tail(ListTail):
            def poll(self, batch: int) -> Any:
                if not self._log:
                    take_over(make_plan(logs, database, owner="other"))
                return super().poll(batch)

        (result,) = run_projectors(plan, logs, loaded, tail=lambda plan, start: Tail(logs[plan], start, 7))
        assert isinstance(result.error, TakenOverError)
        assert read_tables(database) == expected_tables(logs)

    @pytest.mark.covers("projected-once")
    @pytest.mark.parametrize("to", [0, 30])
    def test_projector_continues_at_moved_positions(self, database: DatabaseAddress, to: int) -> None:
        """After a restore of rows and positions, an active projector continues at the restored positions."""
        log = random_log(0, 60)
        logs, loaded = {event_partition(0): log}, recent_orders()
        plan = make_plan(logs, database)
        take_over(plan, loaded)
        moves: list[bool] = []

        class Tail(ListTail):
            def poll(self, batch: int) -> Any:
                if self._position > 40 and not moves:
                    moves.append(True)
                    with open_engine(database) as engine, engine.begin() as db:
                        db.execute(text("DELETE FROM recent_orders"))
                        db.execute(text("DELETE FROM customers"))
                        db.execute(text(f"UPDATE cqrs_positions SET next_offset = {to}"))
                return super().poll(batch)

        assert (
            error_texts(run_projectors(plan, logs, loaded, tail=lambda plan, start: Tail(log, start, 7)))
            == []
        )
        remaining_logs = {event_partition(0): [plan for plan in log if plan.offset >= to]}
        if to == 0:
            assert read_tables(database) == expected_tables(remaining_logs)
        assert next_offsets(database) == {0: log[-1].offset + 1}

    @pytest.mark.covers("projected-once")
    def test_lost_responses_repeat_nothing(self, database: DatabaseAddress) -> None:
        """A commit that succeeded but returned an error is not repeated."""
        logs, loaded = {event_partition(0): random_log(0, 30)}, recent_orders()
        plan = make_plan(logs, database)
        take_over(plan, loaded)
        lost_responses: list[int] = []

        def project(db: Connection, events: Events) -> None:
            loaded.projection.project(db, events)
            if len(lost_responses) < 3:
                lost_responses.append(1)
                dbapi_connection: Any = db.connection.dbapi_connection
                dbapi_connection.cursor().execute("COMMIT")
                raise OperationalError("COMMIT", None, sqlite3.OperationalError("database is locked"))

        assert error_texts(run_projectors(plan, logs, with_project_function(loaded, project))) == []
        assert len(lost_responses) == 3
        assert read_tables(database) == expected_tables(logs)

    def test_waiting_ends_with_the_event(self, database: DatabaseAddress) -> None:
        logs = {event_partition(0): random_log(0, 20)}
        loaded, plan = recent_orders(), make_plan(logs, database)
        last = logs[event_partition(0)][-1].offset
        with open_engine(database) as engine:
            with pytest.raises(ConfigurationError, match="no position of any projection on partition 0"):
                wait(engine, 0, last)
            take_over(plan, loaded)
            with pytest.raises(
                NoOutcomeError, match=rf"recent_orders: event 0@{last} is not projected after 0.1 s"
            ):
                wait(engine, 0, last, timeout=0.1)
            run_projectors(plan, logs, loaded)
            wait(engine, 0, last, timeout=0)
            wait(engine, 0, last, projection="recent_orders", topic="order.events", timeout=0)
            with pytest.raises(
                ConfigurationError, match=r"no position of projection 'other'.*; it has recent_orders"
            ):
                wait(engine, 0, last, projection="other")
