import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from cqrs_cli.errors import ConfigurationError, ContradictionError, TakenOverError
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.projections import database, projector
from cqrs_cli.projections.plan import DatabasePlace
from tests.projections.feeding import (
    ListTail,
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

Events = Sequence[Any]


@pytest.mark.pins("projected-once")
@pytest.mark.parametrize("most", [1, 7, 1000])
def test_rows_are_the_sequential_models(place: DatabasePlace, most: int) -> None:
    """Four partitions at once, whose customers are the same ones."""
    logs = {source(p): random_log(p, 200) for p in range(4)}
    loaded, made = recent_orders(), plan(logs, place)
    take(made, loaded)
    assert errors(projected(made, logs, loaded, most)) == []
    assert told(place) == model(logs)
    assert positions(place) == {one.partition: target for one, target in (made.targets or {}).items()}


def test_going_on_repeats_nothing(file: DatabasePlace) -> None:
    logs = {source(0): random_log(0, 100)}
    loaded, made = recent_orders(), plan(logs, file)
    take(made, loaded)
    half = {source(0): logs[source(0)][:50]}
    projected(plan(half, file), half, loaded)
    results = projected(made, logs, loaded)
    assert told(file) == model(logs)
    assert sum(result.events for result in results) < 60


@pytest.mark.pins("projected-once")
def test_stale_projectors_write_nothing(place: DatabasePlace) -> None:
    logs = {source(p): random_log(p, 50) for p in range(2)}
    loaded, made = recent_orders(), plan(logs, place)
    take(made, loaded)
    take(plan(logs, place, owner="other"))
    results = projected(made, logs, loaded)
    assert all(isinstance(result.error, TakenOverError) for result in results)
    assert "run other took over projection recent_orders" in errors(results)[0]
    assert told(place) == ({}, {})


@pytest.mark.pins("projected-once")
def test_takeover_in_a_batch_stops_it(place: DatabasePlace) -> None:
    """The row's lock is the projector's until it commits, so the other one goes on behind it."""
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


def test_idle_owners_notice_a_takeover(place: DatabasePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch tells them: nothing comes."""
    monkeypatch.setattr(projector, "_IDLE_CHECK", 0.0)
    logs = {source(0): random_log(0, 10)}
    loaded, made = recent_orders(), replace(plan(logs, place), targets=None)
    take(made, loaded)

    class Tail(ListTail):
        def poll(self, most: int) -> Any:
            if not self._log:
                take(plan(logs, place, owner="other"))
            return super().poll(most)

    (result,) = projected(made, logs, loaded, tail=lambda one, start: Tail(logs[one], start, 7))
    assert isinstance(result.error, TakenOverError)
    assert told(place) == model(logs)


def test_topics_made_again_are_noticed(file: DatabasePlace) -> None:
    logs = {source(0): random_log(0, 10)}
    loaded, made = recent_orders(), plan(logs, file)
    take(made, loaded)
    again = replace(made, topic_ids={"order.events": "id-2"})
    (result,) = projected(again, logs, loaded)
    assert isinstance(result.error, ContradictionError)
    assert "cqrs project recent_orders --rebuild" in str(result.error)
    assert told(file) == ({}, {})


@pytest.mark.pins("projected-once")
@pytest.mark.parametrize("to", [0, 30])
def test_moved_positions_are_gone_on_from(file: DatabasePlace, to: int) -> None:
    """A backup was restored under a projector that works, rows and positions alike."""
    log = random_log(0, 60)
    logs, loaded = {source(0): log}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    moved: list[bool] = []

    class Tail(ListTail):
        def poll(self, most: int) -> Any:
            if self._position > 40 and not moved:
                moved.append(True)
                with opened(file) as engine, engine.begin() as db:
                    db.execute(text("DELETE FROM recent_orders"))
                    db.execute(text("DELETE FROM customers"))
                    db.execute(text(f"UPDATE cqrs_positions SET next_offset = {to}"))
            return super().poll(most)

    assert errors(projected(made, logs, loaded, tail=lambda one, start: Tail(log, start, 7))) == []
    rest = {source(0): [one for one in log if one.offset >= to]}
    if to == 0:
        assert told(file) == model(rest)
    assert positions(file) == {0: log[-1].offset + 1}


@pytest.mark.pins("projected-once")
def test_lost_answers_repeat_nothing(file: DatabasePlace) -> None:
    """The commit was done, its answer is an error."""
    logs, loaded = {source(0): random_log(0, 30)}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    lost: list[int] = []

    def project(db: Connection, events: Events) -> None:
        loaded.projection.project(db, events)
        if len(lost) < 3:
            lost.append(1)
            held: Any = db.connection.dbapi_connection
            held.execute("COMMIT")
            raise OperationalError("COMMIT", None, Exception("database is locked"))

    assert errors(projected(made, logs, with_project(loaded, project))) == []
    assert len(lost) == 3
    assert told(file) == model(logs)


@pytest.mark.pins("projected-once")
def test_raising_event_is_named(place: DatabasePlace) -> None:
    """All before it is written, and nothing of it: not even what the projection wrote before it raised."""
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


def test_databases_errors_name_the_event(place: DatabasePlace) -> None:
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    made = plan(logs, place)
    take(made, loaded)

    def project(db: Connection, events: Events) -> None:
        db.execute(text("INSERT INTO customers (customer, orders) VALUES ('x', NULL)"))

    (said,) = errors(projected(made, logs, with_project(loaded, project)))
    assert "raised on order." in said
    assert "IntegrityError" in said
    assert "INSERT" not in said


@pytest.mark.pins("projected-once")
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_transactions_cannot_be_ended(place: DatabasePlace, ending: str) -> None:
    """A projection that commits would part rows and position."""
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


def test_changed_tables_are_named(place: DatabasePlace) -> None:
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    made = plan(logs, place)
    take(made, loaded)
    with opened(place) as engine, engine.begin() as db:
        db.execute(text("ALTER TABLE customers RENAME COLUMN orders TO number"))
    (result,) = projected(made, logs, loaded)
    assert isinstance(result.error, ConfigurationError)
    assert "somebody changed table customers: it has no column 'orders'" in str(result.error)


def test_other_events_move_the_position(file: DatabasePlace) -> None:
    logs, loaded = {source(0): random_log(0, 50)}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    given: list[str] = []

    def project(db: Connection, events: Events) -> None:
        given.extend(type(event.event).__name__ for event in events)

    assert errors(projected(made, logs, with_project(loaded, project))) == []
    assert set(given) == {"Placed", "Shipped", "Cancelled", "Deleted"}
    assert positions(file) == {0: logs[source(0)][-1].offset + 1}


def test_unreadable_records_are_named(file: DatabasePlace) -> None:
    log = random_log(0, 10)
    log[5] = type(log[5])(log[5].offset, 0, b"k", b"?")
    logs, loaded = {source(0): log}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    (result,) = projected(made, logs, loaded)
    assert isinstance(result.error, ContradictionError)
    assert f"order.events:0@{log[5].offset}: " in str(result.error)


def test_busy_databases_are_waited_for(file: DatabasePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program holds SQLite's write lock for longer than a batch waits."""
    monkeypatch.setattr(database, "BUSY", 0.01)
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    with opened(file) as engine:
        holder = engine.connect()
        holder.execute(text("UPDATE customers SET orders = 0"))
        tries: list[int] = []

        def tail(one: EventPartition, start: int) -> ListTail:
            tries.append(start)
            if len(tries) == 3:
                holder.rollback()
                holder.close()
            return ListTail(logs[one], start, 100)

        assert errors(projected(made, logs, loaded, tail=tail)) == []
    assert len(tries) >= 3
    assert told(file) == model(logs)


KILLED = """
import os, signal, sys
from cqrs_cli.projections.plan import DatabasePlace
from tests.projections.feeding import *
place, mark = DatabasePlace(sys.argv[1]), int(sys.argv[2])
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


@pytest.mark.pins("projected-once")
def test_killed_batches_leave_nothing(place: DatabasePlace) -> None:
    """kill -9 within the batches of one process after the other, until one comes to the end."""
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


@pytest.mark.pins("projected-once")
def test_database_away_is_waited_for(place: DatabasePlace, request: pytest.FixtureRequest) -> None:
    if not place.url.startswith("postgresql"):
        pytest.skip("a file is never away")
    server = request.getfixturevalue("server")
    logs, loaded, notes = {source(0): random_log(0, 60)}, recent_orders(), list[str]()
    made = plan(logs, place)
    take(made, loaded)
    killed: list[bool] = []

    def project(db: Connection, events: Events) -> None:
        loaded.projection.project(db, events)
        if len(killed) < 2:
            killed.append(True)
            server.kill()
            server.start()

    assert errors(projected(made, logs, with_project(loaded, project), notes=notes)) == []
    assert told(place) == model(logs)
    assert "no answer from postgresql" in notes[0]
    assert "still trying" in notes[0]
    assert rows(place, "SELECT owner FROM cqrs_positions") == [("me",)]
