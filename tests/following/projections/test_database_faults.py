"""A database that is busy or away, and a projector that is killed: nothing is lost or doubled."""

import os
import signal
import subprocess
import sys

import pytest
from sqlalchemy import Connection, MetaData, text

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.projections import database
from cqrs_cli.following.projections.database import shown
from cqrs_cli.following.projections.plan import DatabasePlace
from cqrs_cli.following.projections.prepare import prepare_tables
from cqrs_cli.following.projections.tables import make_control, make_tables
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.feeding import (
    Events,
    ListTail,
    errors,
    model,
    opened,
    plan,
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


def test_tables_half_made_are_made_again(place: DatabasePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What of them is there is the projection's own, not somebody else's."""
    loaded = recent_orders()

    def cut_off(metadata: MetaData, db: Connection, **_: object) -> None:
        metadata.sorted_tables[0].create(db)
        raise CqrsError("cut off")

    with opened(place) as engine:
        make_control(engine)
        with monkeypatch.context() as patch, pytest.raises(CqrsError, match="cut off"):
            patch.setattr(MetaData, "create_all", cut_off)
            make_tables(engine, loaded)
        one = plan({source(0): []}, place)
        prepare_tables(one, loaded, engine, False, {source(0): 0}, engine.begin)
    assert told(place) == ({}, {})
    assert rows(place, "SELECT owner FROM cqrs_positions") == [("me",)]


KILLED = """
import os, signal, sys
from cqrs_cli.following.projections.plan import DatabasePlace
from tests.following.projections.feeding import *
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


@pytest.mark.slow
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
@pytest.mark.parametrize("half", [False, True])
def test_database_away_is_waited_for(
    place: DatabasePlace, request: pytest.FixtureRequest, half: bool
) -> None:
    """Killed before a statement of a batch, or before its commit."""
    if place.url.startswith("sqlite"):
        pytest.skip("a file is never away")
    server = request.getfixturevalue("server" if place.url.startswith("postgresql") else "maria_server")
    logs, loaded, notes = {source(0): random_log(0, 60)}, recent_orders(), list[str]()
    made = plan(logs, place)
    take(made, loaded)
    killed: list[bool] = []

    def project(db: Connection, events: Events) -> None:
        if not half:
            loaded.projection.project(db, events)
        if len(killed) < 2:
            killed.append(True)
            server.kill()
            server.start()
        if half:
            loaded.projection.project(db, events)

    assert errors(projected(made, logs, with_project(loaded, project), notes=notes)) == []
    assert told(place) == model(logs)
    assert f"no answer from {shown(place)}" in notes[0]
    assert "still trying" in notes[0]
    assert rows(place, "SELECT owner FROM cqrs_positions") == [("me",)]
