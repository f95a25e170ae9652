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
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.errors import ContradictionError, UnavailableError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.prepare import prepare_projection, stable_ends
from cqrs_cli.following.projections.reading import topic_identity
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import Settings
from tests.following.projections.projector_harness import (
    error_texts,
    next_offsets,
    open_engine,
    read_tables,
    recent_orders,
)
from tests.following.projections.topics import expected_contents, write_logs
from tests.support import ROOT
from tests.support.brokers import broker
from tests.support.harness import TopicHarness
from tests.support.sampling import sample_cases
from tests.support.topic_loss import delete_kinds
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

DATABASES = ["sqlite_database", "postgres_database", "mariadb_database", "duckdb_database"]


def prepare_plan(
    settings: Settings, connection: Connection, database: DatabaseAddress, rebuild: bool = False
) -> ProjectionPlan:
    """Return the plan of the tables to fill, up to the present ends."""
    run = prepare_projection(settings, connection, recent_orders(), database, print, rebuild=rebuild)
    plan = run.new or run.live
    return replace(plan, end_offsets=stable_ends(plan))


def project(plan: ProjectionPlan) -> list[str]:
    return error_texts(project_partitions(plan, plan.sources, recent_orders(), print))


@pytest.mark.covers("projected-once")
def test_committed_events_are_projected_once(
    connection: Connection, prefix: str, settings: Settings, database: DatabaseAddress
) -> None:
    logs = write_logs(connection, settings, prefix, 500)
    plan = prepare_plan(settings, connection, database)
    assert project(plan) == []
    assert read_tables(database) == expected_contents(logs)
    assert next_offsets(database) == {
        partition.partition: end for partition, end in (plan.end_offsets or {}).items()
    }


def test_recreated_topics_need_a_rebuild(
    connection: Connection, prefix: str, settings: Settings, sqlite_database: DatabaseAddress, tmp_path: Path
) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "order", 4)
    write_logs(connection, settings, prefix, 50)
    project(prepare_plan(settings, connection, sqlite_database))
    old_tables = read_tables(sqlite_database)
    delete_kinds(harness, "events")
    logs = write_logs(connection, settings, prefix, 60, seed=2)
    with pytest.raises(ContradictionError, match="cqrs project recent_orders --rebuild"):
        prepare_plan(settings, connection, sqlite_database)
    new = prepare_plan(settings, connection, sqlite_database, rebuild=True)
    assert project(new) == []
    assert read_tables(sqlite_database) == old_tables
    assert read_tables(new.database) == expected_contents(logs)


def test_topics_deleted_during_projection_are_an_error(
    connection: Connection, prefix: str, settings: Settings, sqlite_database: DatabaseAddress, tmp_path: Path
) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "order", 4)
    write_logs(connection, settings, prefix, 20)
    plan = prepare_plan(settings, connection, sqlite_database)
    topic_identity(plan).check_ids()
    delete_kinds(harness, "events")
    with pytest.raises(ContradictionError, match=r"order\.events was deleted while recent_orders was filled"):
        topic_identity(plan).check_ids()
    harness.make_topics()
    with pytest.raises(ContradictionError, match="was recreated while"):
        topic_identity(plan).check_ids()


def test_positions_beyond_the_log_are_an_error(
    connection: Connection, prefix: str, settings: Settings, sqlite_database: DatabaseAddress
) -> None:
    write_logs(connection, settings, prefix, 20)
    plan = prepare_plan(settings, connection, sqlite_database)
    project(plan)
    with move_positions(sqlite_database, 1_000_000):
        (error, *_) = project(plan)
    assert "the position is 1000000, but the log ends at" in error


def test_positions_of_a_lost_history_are_an_error(
    connection: Connection, prefix: str, settings: Settings, sqlite_database: DatabaseAddress
) -> None:
    """The log was restored from a backup, and has other events at the last offsets."""
    write_logs(connection, settings, prefix, 20)
    plan = prepare_plan(settings, connection, sqlite_database)
    assert project(plan) == project(plan) == []
    with open_engine(sqlite_database) as engine, engine.begin() as db:
        db.execute(text(f"UPDATE cqrs_positions SET last_digest = '{64 * '0'}'"))
    (error, *_) = project(plan)
    assert "recent_orders was filled from a history that the log has lost" in error


@contextmanager
def move_positions(database: DatabaseAddress, offset: int) -> Iterator[None]:
    """Move every position."""
    with open_engine(database) as engine, engine.begin() as db:
        db.execute(text(f"UPDATE cqrs_positions SET next_offset = {offset}"))
    yield


def test_lost_broker_ends_a_once_run(
    prefix: str, settings: Settings, sqlite_database: DatabaseAddress, tmp_path: Path
) -> None:
    """The broker existed when the projectors started, and they wait for more events."""
    with broker(tmp_path / "kafka") as kafka:
        write_logs(kafka.connection, settings, prefix, 20)
        plan = prepare_plan(settings, kafka.connection, sqlite_database)
        ends, actions = dict(plan.end_offsets or {}), iter([kafka.kill])
        waiting_plan = replace(
            plan, timeout=0.0, end_offsets={partition: end + 1 for partition, end in ends.items()}
        )

        def kill_broker_at_the_end(stopping: threading.Event) -> None:
            if next_offsets(sqlite_database) == {partition.partition: end for partition, end in ends.items()}:
                next(actions, lambda: None)()

        results = project_partitions(
            waiting_plan, waiting_plan.sources, recent_orders(), print, kill_broker_at_the_end
        )
    assert {type(result.error) for result in results if result.error} == {UnavailableError}


KILLED_PROGRAM = """
import sys
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.test_broker import *
settings = load_settings({"topic_prefix": sys.argv[2]}, ROOT)
plan = prepare_plan(settings, Connection(sys.argv[1]), DatabaseAddress(sys.argv[3]))
problems = project(replace(plan, batch=40))
print(problems)
sys.exit(bool(problems))
"""


@pytest.mark.covers("projected-once")
@pytest.mark.slow
@pytest.mark.parametrize(
    "database", sample_cases(DATABASES, "sqlite_database", "postgres_database"), indirect=True
)
def test_killed_and_rival_projectors_agree(
    connection: Connection, prefix: str, settings: Settings, database: DatabaseAddress
) -> None:
    """SIGKILL at random moments, sometimes to two rival processes: no event is repeated or lost."""
    choice = random.Random(1)
    logs = write_logs(connection, settings, prefix, 800)
    program = [sys.executable, "-c", KILLED_PROGRAM, connection.bootstrap_server, prefix, database.url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def projected_count() -> int:
        try:
            return sum(next_offsets(database).values())
        except SQLAlchemyError:
            return 0  # the tables do not exist yet

    kill_count = 0
    while True:
        next_count = projected_count() + choice.randrange(1, 1500)
        processes = [
            subprocess.Popen(program, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
            for _ in range(choice.choice([1, 1, 2]))
        ]
        eventually(
            lambda next_count=next_count, processes=processes: (
                projected_count() >= next_count or all(process.poll() is not None for process in processes)
            ),  # type: ignore[misc]
            within=90,
        )
        for process in processes:
            process.kill()  # no effect if it has ended
        exit_codes = [process.wait() for process in processes]
        kill_count += exit_codes.count(-signal.SIGKILL)
        if 0 in exit_codes:
            break
    assert kill_count > 0
    assert read_tables(database) == expected_contents(logs)
