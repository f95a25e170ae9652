"""Projecting from a real broker, by threads of one process, as in a Spark task, and by `cqrs project`."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.errors import ContradictionError, UnavailableError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.prepare import ends, prepare_projection
from cqrs_cli.following.projections.reading import projected_topics
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import Settings
from tests.following.projections.feeding import (
    errors,
    positions,
    recent_orders,
    told,
)
from tests.following.projections.topics import expected, write_logs
from tests.support import ROOT
from tests.support.brokers import broker
from tests.support.harness import TopicHarness
from tests.support.sampling import sampled
from tests.support.topic_loss import delete
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

DATABASES = ["file", "postgres_place", "maria", "duck"]


def prepared(
    settings: Settings, connection: Connection, place: DatabaseAddress, rebuild: bool = False
) -> ProjectionPlan:
    """Return the plan of the tables to fill, up to the present ends."""
    made = prepare_projection(settings, connection, recent_orders(), place, print, rebuild=rebuild)
    plan = made.new or made.live
    return replace(plan, targets=ends(plan))


def project(plan: ProjectionPlan) -> list[str]:
    return errors(project_partitions(plan, plan.sources, recent_orders(), print))


@pytest.mark.covers("projected-once")
def test_committed_events_are_projected_once(
    connection: Connection, prefix: str, settings: Settings, place: DatabaseAddress
) -> None:
    logs = write_logs(connection, settings, prefix, 500)
    plan = prepared(settings, connection, place)
    assert project(plan) == []
    assert told(place) == expected(logs)
    assert positions(place) == {one.partition: end for one, end in (plan.targets or {}).items()}


def test_topics_made_again_need_a_rebuild(
    connection: Connection, prefix: str, settings: Settings, file: DatabaseAddress, tmp_path: Path
) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "order", 4)
    write_logs(connection, settings, prefix, 50)
    project(prepared(settings, connection, file))
    before = told(file)
    delete(harness, "events")
    logs = write_logs(connection, settings, prefix, 60, seed=2)
    with pytest.raises(ContradictionError, match="cqrs project recent_orders --rebuild"):
        prepared(settings, connection, file)
    new = prepared(settings, connection, file, rebuild=True)
    assert project(new) == []
    assert told(file) == before
    assert told(new.place) == expected(logs)


def test_topics_lost_meanwhile_stop(
    connection: Connection, prefix: str, settings: Settings, file: DatabaseAddress, tmp_path: Path
) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "order", 4)
    write_logs(connection, settings, prefix, 20)
    plan = prepared(settings, connection, file)
    projected_topics(plan).check_ids()
    delete(harness, "events")
    with pytest.raises(ContradictionError, match=r"order\.events was deleted while recent_orders was filled"):
        projected_topics(plan).check_ids()
    harness.make_topics()
    with pytest.raises(ContradictionError, match="was deleted and made again while"):
        projected_topics(plan).check_ids()


def test_positions_beyond_the_log_stop(
    connection: Connection, prefix: str, settings: Settings, file: DatabaseAddress
) -> None:
    write_logs(connection, settings, prefix, 20)
    plan = prepared(settings, connection, file)
    project(plan)
    with parse_and_move(file, 1_000_000):
        (said, *_) = project(plan)
    assert "the position is 1000000, but the log ends at" in said


@contextmanager
def parse_and_move(place: DatabaseAddress, to: int) -> Iterator[None]:
    """Move every position."""
    from sqlalchemy import text

    from tests.following.projections.feeding import opened

    with opened(place) as engine, engine.begin() as db:
        db.execute(text(f"UPDATE cqrs_positions SET next_offset = {to}"))
    yield


def test_lost_broker_ends_once(
    prefix: str, settings: Settings, file: DatabaseAddress, tmp_path: Path
) -> None:
    """The broker existed when the projectors started, and they wait for more events."""
    with broker(tmp_path / "kafka") as kafka:
        write_logs(kafka.connection, settings, prefix, 20)
        plan = prepared(settings, kafka.connection, file)
        reached, steps = dict(plan.targets or {}), iter([kafka.kill])
        waiting = replace(plan, patience=0.0, targets={one: end + 1 for one, end in reached.items()})

        def idle(stopping: threading.Event) -> None:
            if positions(file) == {one.partition: end for one, end in reached.items()}:
                next(steps, lambda: None)()

        results = project_partitions(waiting, waiting.sources, recent_orders(), print, idle)
    assert {type(result.error) for result in results if result.error} == {UnavailableError}


KILLED = """
import sys
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.test_broker import *
settings = load_settings({"topic_prefix": sys.argv[2]}, ROOT)
plan = prepared(settings, Connection(sys.argv[1]), DatabaseAddress(sys.argv[3]))
said = project(replace(plan, batch=40))
print(said)
sys.exit(bool(said))
"""


@pytest.mark.covers("projected-once")
@pytest.mark.slow
@pytest.mark.parametrize("place", sampled(DATABASES, "file", "postgres_place"), indirect=True)
def test_killed_and_rival_projectors_agree(
    connection: Connection, prefix: str, settings: Settings, place: DatabaseAddress
) -> None:
    """SIGKILL at random moments, sometimes to two rival processes: no event is repeated or lost."""
    choice = random.Random(1)
    logs = write_logs(connection, settings, prefix, 800)
    program = [sys.executable, "-c", KILLED, connection.bootstrap_server, prefix, place.url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def done() -> int:
        try:
            return sum(positions(place).values())
        except SQLAlchemyError:
            return 0  # the tables do not exist yet

    killed = 0
    while True:
        goal = done() + choice.randrange(1, 1500)
        several = [
            subprocess.Popen(program, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
            for _ in range(choice.choice([1, 1, 2]))
        ]
        eventually(
            lambda goal=goal, several=several: (
                done() >= goal or all(one.poll() is not None for one in several)
            ),  # type: ignore[misc]
            within=90,
        )
        for one in several:
            one.kill()  # no effect if it has ended
        ended = [one.wait() for one in several]
        killed += ended.count(-signal.SIGKILL)
        if 0 in ended:
            break
    assert killed > 0
    assert told(place) == expected(logs)
