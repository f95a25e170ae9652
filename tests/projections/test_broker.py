"""Projecting from a real broker: by threads of one process, as a Spark task does, and by `cqrs project`."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.projections.database import parse_database, shown
from cqrs_cli.projections.plan import DatabasePlace, ProjectionPlan
from cqrs_cli.projections.prepare import ends, prepare_projection
from cqrs_cli.projections.reading import check_topic_ids
from cqrs_cli.projections.runner import project_partitions
from cqrs_cli.settings.settings import Settings, load_settings
from tests.projections.feeding import errors, model, positions, random_log, recent_orders, rows, source, told
from tests.projections.topics import make_orders, write_events
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.project import Project
from tests.support.topic_loss import delete
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(prefix: str) -> Settings:
    return load_settings({"topic_prefix": prefix}, ROOT)


def prepared(
    settings: Settings, connection: Connection, place: DatabasePlace, rebuild: bool = False
) -> ProjectionPlan:
    """The plan of the tables to fill now, up to the present ends."""
    made = prepare_projection(settings, connection, recent_orders(), place, print, rebuild=rebuild)
    plan = made.new or made.live
    return replace(plan, targets=ends(plan))


def project(plan: ProjectionPlan) -> list[str]:
    return errors(project_partitions(plan, plan.sources, recent_orders(), print))


def write_logs(
    connection: Connection, settings: Settings, prefix: str, count: int, seed: int = 1
) -> dict[int, list[Record]]:
    topics = make_orders(connection, prefix)
    logs = {partition: random_log(partition, count, seed=seed) for partition in range(4)}
    for partition, log in logs.items():
        write_events(connection, topics.events, partition, log)
    return logs


def expected(logs: dict[int, list[Record]]) -> object:
    return model({source(partition): log for partition, log in logs.items()})


@pytest.mark.pins("projected-once")
def test_committed_events_are_projected_once(
    connection: Connection, prefix: str, settings: Settings, place: DatabasePlace
) -> None:
    logs = write_logs(connection, settings, prefix, 500)
    plan = prepared(settings, connection, place)
    assert project(plan) == []
    assert told(place) == expected(logs)
    assert positions(place) == {one.partition: end for one, end in (plan.targets or {}).items()}


def test_topics_made_again_need_a_rebuild(
    connection: Connection, prefix: str, settings: Settings, file: DatabasePlace, tmp_path: Path
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
    connection: Connection, prefix: str, settings: Settings, file: DatabasePlace, tmp_path: Path
) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "order", 4)
    write_logs(connection, settings, prefix, 20)
    plan = prepared(settings, connection, file)
    check_topic_ids(connection, plan.name, plan.topic_ids)
    delete(harness, "events")
    with pytest.raises(ContradictionError, match=r"order\.events was deleted while recent_orders was filled"):
        check_topic_ids(connection, plan.name, plan.topic_ids)
    harness.make_topics()
    with pytest.raises(ContradictionError, match="was deleted and made again while"):
        check_topic_ids(connection, plan.name, plan.topic_ids)


def test_positions_beyond_the_log_stop(
    connection: Connection, prefix: str, settings: Settings, file: DatabasePlace
) -> None:
    write_logs(connection, settings, prefix, 20)
    plan = prepared(settings, connection, file)
    project(plan)
    with parse_and_move(file, 1_000_000):
        (said, *_) = project(plan)
    assert "the position is 1000000, but the log ends at" in said


@contextmanager
def parse_and_move(place: DatabasePlace, to: int) -> Iterator[None]:
    """Move every position."""
    from sqlalchemy import text

    from tests.projections.feeding import opened

    with opened(place) as engine, engine.begin() as db:
        db.execute(text(f"UPDATE cqrs_positions SET next_offset = {to}"))
    yield


KILLED = """
import sys
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.projections.plan import DatabasePlace
from tests.projections.test_broker import *
settings = load_settings({"topic_prefix": sys.argv[2]}, ROOT)
plan = prepared(settings, Connection(sys.argv[1]), DatabasePlace(sys.argv[3]))
said = project(replace(plan, batch=40))
print(said)
sys.exit(bool(said))
"""


@pytest.mark.pins("projected-once")
@pytest.mark.slow
def test_killed_and_rival_projectors_agree(
    connection: Connection, prefix: str, settings: Settings, place: DatabasePlace
) -> None:
    """kill -9 at random moments, now and then of two that take over from each other: nothing twice, nothing lost."""
    choice = random.Random(1)
    logs = write_logs(connection, settings, prefix, 800)
    program = [sys.executable, "-c", KILLED, connection.bootstrap_server, prefix, place.url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def done() -> int:
        try:
            return sum(positions(place).values())
        except SQLAlchemyError:
            return 0  # no tables yet

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
            one.kill()  # nothing if it has ended
        ended = [one.wait() for one in several]
        killed += ended.count(-signal.SIGKILL)
        if 0 in ended:
            break
    assert killed > 0
    assert told(place) == expected(logs)


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with the examples."""
    shutil.copytree(
        ROOT / "projections", project.folder / "projections", ignore=shutil.ignore_patterns("__pycache__")
    )
    return project


@pytest.mark.spark
@pytest.mark.slow
def test_cqrs_projects_once(shop: Project, connection: Connection, prefix: str, settings: Settings) -> None:
    logs = write_logs(connection, settings, prefix, 300)
    said = shop.json("project", "recent_orders", "--once")
    place = parse_database("sqlite:///projections.db", shop.folder)
    assert (said["projection"], said["revision"], said["lag"]) == ("recent_orders", 1, 0)
    assert {int(p): at for p, at in said["positions"][f"{prefix}order.events"].items()} == positions(place)
    assert told(place) == expected(logs)
    shop.cqrs("init", "-q")
    shop.cqrs("project", "all_events", "--once", "--to", "sqlite:///all.db")
    found = rows(
        parse_database("sqlite:///all.db", shop.folder), 'SELECT partition, "offset", version FROM all_events'
    )
    assert len(found) == len(set(found)) == sum(len(log) for log in logs.values())


@pytest.mark.spark
@pytest.mark.slow
def test_raising_projections_end_with_one(
    shop: Project, connection: Connection, prefix: str, settings: Settings
) -> None:
    write_logs(connection, settings, prefix, 30)
    file = shop.folder / "projections/recent_orders.py"
    text = file.read_text()
    file.write_text(
        text.replace("    for recorded in events:\n", "    for recorded in events:\n        1 / 0\n")
    )
    line = 1 + file.read_text().splitlines().index("        1 / 0")
    with shop.running("project", "recent_orders", "-o", "json") as process:
        _, err = process.communicate(timeout=120)
    said = json.loads(err.splitlines()[-1])["error"]["message"]
    assert process.returncode == 1
    assert f"raised on order.Placed {prefix}order.events:" in said
    assert f"recent_orders.py:{line}: ZeroDivisionError: division by zero" in said


@pytest.mark.pins("projected-once")
@pytest.mark.spark
@pytest.mark.slow
def test_new_revision_replaces_under_load(
    shop: Project, connection: Connection, prefix: str, settings: Settings, place: DatabasePlace
) -> None:
    """Events come in, readers look, the older run works: then it ends with exit status 6, and no reader lost a row."""
    topics = make_orders(connection, prefix)
    logs = {partition: random_log(partition, 3000) for partition in range(4)}
    to = ("--to", shown(place).replace("+psycopg", ""))
    seen: list[int] = []
    stop = threading.Event()
    file = shop.folder / "projections/recent_orders.py"

    def write() -> None:
        for start in range(0, 3000, 100):
            for partition, log in logs.items():
                write_events(connection, topics.events, partition, log[start : start + 100])

    def look() -> None:
        while not stop.is_set():
            try:
                seen.append(rows(place, "SELECT count(*) FROM recent_orders")[0][0])
            except SQLAlchemyError:
                seen.append(-1)  # not made yet
            stop.wait(0.02)

    with shop.running("project", "recent_orders", *to) as older:
        threads = [threading.Thread(target=one) for one in (write, look)]
        threads[0].start()
        eventually(lambda: ready(place), within=120)
        threads[1].start()
        file.write_text(file.read_text().replace("metadata)\n", "metadata, revision=2)\n"))
        shop.cqrs("project", "recent_orders", "--once", *to)
        _, err = older.communicate(timeout=120)
        threads[0].join()
        stop.set()
        threads[1].join()
        assert older.returncode == 6
        assert "took over projection recent_orders" in err
    shop.cqrs("project", "recent_orders", "--once", *to)
    assert seen == sorted(seen)
    assert seen[0] >= 0
    assert rows(place, "SELECT revision FROM cqrs_projections") == [(2,)]
    assert told(place) == expected(logs)


def served(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def ready(place: DatabasePlace) -> bool:
    try:
        return bool(rows(place, "SELECT count(*) FROM recent_orders")[0][0])
    except SQLAlchemyError:
        return False


@pytest.mark.pins("projected-once")
@pytest.mark.spark
@pytest.mark.slow
def test_killed_driver_is_taken_over(
    shop: Project, connection: Connection, prefix: str, settings: Settings
) -> None:
    """Its orphans end, and the next run says from whom it took over; Ctrl-C ends that one with 130."""
    logs = write_logs(connection, settings, prefix, 2000)
    place = parse_database("sqlite:///projections.db", shop.folder)
    first = shop.start("project", "recent_orders")
    eventually(lambda: ready(place), within=120)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    second = shop.start("project", "recent_orders", "--metrics-address", str(port))
    eventually(lambda: told(place) == expected(logs), within=120)
    eventually(lambda: "cqrs_projection_ready 1.0" in served(f"http://127.0.0.1:{port}/metrics"))
    assert served(f"http://127.0.0.1:{port}/metrics").count("cqrs_projection_lag_events{") == 4
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130
    assert f":{first.pid}:" in err
    assert "stopped: recent_orders is at" in err
