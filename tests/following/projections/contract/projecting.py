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
from tests.following.projections.feeding import (
    Events,
    ListTail,
    errors,
    model,
    opened,
    plan,
    positions,
    projected,
    random_log,
    recent_orders,
    source,
    take,
    told,
    with_project,
)


class ProjectingContract:
    """A subclass has a fixture `place`: an empty database. `count` is the number of events per partition."""

    count = 200

    @pytest.mark.covers("projected-once")
    @pytest.mark.parametrize("most", [1, 7, 1000])
    def test_rows_are_the_sequential_models(self, place: DatabaseAddress, most: int) -> None:
        """Four partitions, projected concurrently, give the rows of a sequential model."""
        logs = {source(p): random_log(p, self.count) for p in range(4)}
        loaded, made = recent_orders(), plan(logs, place)
        take(made, loaded)
        assert errors(projected(made, logs, loaded, most)) == []
        assert told(place) == model(logs)
        assert positions(place) == {one.partition: target for one, target in (made.targets or {}).items()}

    @pytest.mark.covers("projected-once")
    def test_stale_projectors_write_nothing(self, place: DatabaseAddress) -> None:
        logs = {source(p): random_log(p, 50) for p in range(2)}
        loaded, made = recent_orders(), plan(logs, place)
        take(made, loaded)
        take(plan(logs, place, owner="other"))
        results = projected(made, logs, loaded)
        assert all(isinstance(result.error, TakenOverError) for result in results)
        assert "run other took over projection recent_orders" in errors(results)[0]
        assert told(place) == ({}, {})

    @pytest.mark.covers("projected-once")
    def test_takeover_in_a_batch_stops_it(self, place: DatabaseAddress) -> None:
        """A takeover waits for the batch that holds the row's lock, and the next batch of the old run fails."""
        logs = {source(0): random_log(0, 40)}
        loaded, made = recent_orders(), plan(logs, place)
        take(made, loaded)
        other = plan(logs, place, owner="other")
        taken: list[bool] = []

        class Tail(ListTail):
            def poll(self, most: int) -> Any:
                if self._position > 20 and not taken:
                    taken.append(True)
                    take(other)
                return super().poll(most)

        results = projected(made, logs, loaded, tail=lambda one, start: Tail(logs[one], start, 7))
        assert isinstance(results[0].error, TakenOverError)
        assert errors(projected(other, logs, loaded)) == []
        assert told(place) == model(logs)

    def test_idle_owners_notice_a_takeover(self, place: DatabaseAddress) -> None:
        """Without new events, no batch shows the takeover."""
        logs = {source(0): random_log(0, 10)}
        loaded, made = recent_orders(), replace(plan(logs, place), targets=None, idle_check=0.0)
        take(made, loaded)

        class Tail(ListTail):
            def poll(self, most: int) -> Any:
                if not self._log:
                    take(plan(logs, place, owner="other"))
                return super().poll(most)

        (result,) = projected(made, logs, loaded, tail=lambda one, start: Tail(logs[one], start, 7))
        assert isinstance(result.error, TakenOverError)
        assert told(place) == model(logs)

    @pytest.mark.covers("projected-once")
    @pytest.mark.parametrize("to", [0, 30])
    def test_moved_positions_are_gone_on_from(self, place: DatabaseAddress, to: int) -> None:
        """After a restore of rows and positions, an active projector continues at the restored positions."""
        log = random_log(0, 60)
        logs, loaded = {source(0): log}, recent_orders()
        made = plan(logs, place)
        take(made, loaded)
        moved: list[bool] = []

        class Tail(ListTail):
            def poll(self, most: int) -> Any:
                if self._position > 40 and not moved:
                    moved.append(True)
                    with opened(place) as engine, engine.begin() as db:
                        db.execute(text("DELETE FROM recent_orders"))
                        db.execute(text("DELETE FROM customers"))
                        db.execute(text(f"UPDATE cqrs_positions SET next_offset = {to}"))
                return super().poll(most)

        assert errors(projected(made, logs, loaded, tail=lambda one, start: Tail(log, start, 7))) == []
        rest = {source(0): [one for one in log if one.offset >= to]}
        if to == 0:
            assert told(place) == model(rest)
        assert positions(place) == {0: log[-1].offset + 1}

    @pytest.mark.covers("projected-once")
    def test_lost_answers_repeat_nothing(self, place: DatabaseAddress) -> None:
        """A commit that succeeded but returned an error is not repeated."""
        logs, loaded = {source(0): random_log(0, 30)}, recent_orders()
        made = plan(logs, place)
        take(made, loaded)
        lost: list[int] = []

        def project(db: Connection, events: Events) -> None:
            loaded.projection.project(db, events)
            if len(lost) < 3:
                lost.append(1)
                held: Any = db.connection.dbapi_connection
                held.cursor().execute("COMMIT")
                raise OperationalError("COMMIT", None, sqlite3.OperationalError("database is locked"))

        assert errors(projected(made, logs, with_project(loaded, project))) == []
        assert len(lost) == 3
        assert told(place) == model(logs)

    def test_waiting_ends_with_the_event(self, place: DatabaseAddress) -> None:
        logs = {source(0): random_log(0, 20)}
        loaded, made = recent_orders(), plan(logs, place)
        last = logs[source(0)][-1].offset
        with opened(place) as engine:
            with pytest.raises(ConfigurationError, match="no position of any projection on partition 0"):
                wait(engine, 0, last)
            take(made, loaded)
            with pytest.raises(
                NoOutcomeError, match=rf"recent_orders: event 0@{last} is not projected after 0.1 s"
            ):
                wait(engine, 0, last, timeout=0.1)
            projected(made, logs, loaded)
            wait(engine, 0, last, timeout=0)
            wait(engine, 0, last, projection="recent_orders", topic="order.events", timeout=0)
            with pytest.raises(
                ConfigurationError, match=r"no position of projection 'other'.*; it has recent_orders"
            ):
                wait(engine, 0, last, projection="other")
