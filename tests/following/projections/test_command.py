"""Projections by `cqrs project`, on the real broker."""

import json
import os
import shutil
import signal
import threading
import urllib.request

import pytest
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.following.projections.database import parse_database
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import Settings
from tests.following.projections.projector_harness import (
    command_line_url,
    next_offsets,
    query_rows,
    random_log,
    read_tables,
)
from tests.following.projections.topics import (
    create_order_topics,
    expected_contents,
    write_events,
    write_logs,
)
from tests.support import ROOT
from tests.support.absent_broker import free_port
from tests.support.project import Project
from tests.support.sampling import sample_cases
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with the example projections."""
    shutil.copytree(
        ROOT / "projections", project.folder / "projections", ignore=shutil.ignore_patterns("__pycache__")
    )
    return project


@pytest.mark.spark
@pytest.mark.slow
def test_once_run_fills_the_tables(
    shop: Project, connection: Connection, prefix: str, settings: Settings
) -> None:
    logs = write_logs(connection, settings, prefix, 300)
    first_result = shop.json("project", "recent_orders", "--once", "--master", "local[2]")
    database = parse_database("sqlite:///projections.db", shop.folder)
    assert (first_result["projection"], first_result["revision"], first_result["lag"]) == (
        "recent_orders",
        1,
        0,
    )
    assert {
        int(partition): offset
        for partition, offset in first_result["positions"][f"{prefix}order.events"].items()
    } == next_offsets(database)
    assert read_tables(database) == expected_contents(logs)
    second_result = shop.json("project", "recent_orders", "--once", "--rebuild", "--master", "local[2]")
    assert first_result["events"] == second_result["events"] > 0
    assert read_tables(database) == expected_contents(logs)
    shop.cqrs("init", "-q")
    shop.cqrs("project", "all_events", "--once", "--to", "sqlite:///all.db")
    rows = query_rows(
        parse_database("sqlite:///all.db", shop.folder), 'SELECT partition, "offset", version FROM all_events'
    )
    assert len(rows) == len(set(rows)) == sum(len(log) for log in logs.values())


def test_few_events_need_no_spark(
    shop: Project, connection: Connection, prefix: str, settings: Settings
) -> None:
    """New tables with few events need no Spark either."""
    logs = write_logs(connection, settings, prefix, 100)
    database = parse_database("sqlite:///projections.db", shop.folder)
    first, second_result = (
        shop.json("project", "recent_orders", "--once", *options) for options in ([], ["--rebuild"])
    )
    assert first["events"] == second_result["events"] > 0
    assert read_tables(database) == expected_contents(logs)
    assert not (shop.folder / ".cqrs/log/project.log").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_raising_projection_exits_with_1(
    shop: Project, connection: Connection, prefix: str, settings: Settings
) -> None:
    write_logs(connection, settings, prefix, 30)
    projection_file = shop.folder / "projections/recent_orders.py"
    text = projection_file.read_text()
    projection_file.write_text(
        text.replace("    for recorded in events:\n", "    for recorded in events:\n        1 / 0\n")
    )
    line = 1 + projection_file.read_text().splitlines().index("        1 / 0")
    with shop.running("project", "recent_orders", "-o", "json") as process:
        _, err = process.communicate(timeout=120)
    error = json.loads(err.splitlines()[-1])["error"]["message"]
    assert process.returncode == 1
    assert f"raised on order.Placed {prefix}order.events:" in error
    assert f"recent_orders.py:{line}: ZeroDivisionError: division by zero" in error


@pytest.mark.covers("projected-once")
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "database",
    sample_cases(
        ["sqlite_database", "postgres_database", "mariadb_database", "duckdb_database"], "sqlite_database"
    ),
    indirect=True,
)
def test_new_revision_replaces_under_load(
    shop: Project, connection: Connection, prefix: str, settings: Settings, database: DatabaseAddress
) -> None:
    """The new run takes over during writes, reads and an older run. The older run exits with 6; readers miss no row."""
    topics = create_order_topics(connection, prefix)
    logs = {partition: random_log(partition, 1500) for partition in range(4)}
    to_option = ("--to", command_line_url(database))
    row_counts: list[int] = []
    stop = threading.Event()
    projection_file = shop.folder / "projections/recent_orders.py"

    def write() -> None:
        for start in range(0, 1500, 100):
            for partition, log in logs.items():
                write_events(connection, topics.events, partition, log[start : start + 100])

    def read_row_counts() -> None:
        while not stop.is_set():
            try:
                row_counts.append(query_rows(database, "SELECT count(*) FROM recent_orders")[0][0])
            except SQLAlchemyError:
                row_counts.append(-1)  # the table does not exist yet
            stop.wait(0.02)

    with shop.running("project", "recent_orders", *to_option) as older:
        threads = [threading.Thread(target=function) for function in (write, read_row_counts)]
        threads[0].start()
        eventually(lambda: has_rows(database), within=120)
        threads[1].start()
        projection_file.write_text(
            projection_file.read_text().replace("metadata)\n", "metadata, revision=2)\n")
        )
        shop.cqrs("project", "recent_orders", "--once", *to_option)
        _, err = older.communicate(timeout=120)
        threads[0].join()
        stop.set()
        threads[1].join()
        assert older.returncode == 6
        assert "took over projection recent_orders" in err
    shop.cqrs("project", "recent_orders", "--once", *to_option)
    assert row_counts == sorted(row_counts)
    assert row_counts[0] >= 0
    assert query_rows(database, "SELECT revision FROM cqrs_projections") == [(2,)]
    assert read_tables(database) == expected_contents(logs)


def http_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def has_rows(database: DatabaseAddress) -> bool:
    try:
        return bool(query_rows(database, "SELECT count(*) FROM recent_orders")[0][0])
    except SQLAlchemyError:
        return False


@pytest.mark.covers("projected-once")
@pytest.mark.spark
@pytest.mark.slow
def test_killed_driver_is_taken_over(
    shop: Project, connection: Connection, prefix: str, settings: Settings
) -> None:
    """After a driver is killed, its orphans end, and the next run takes over and names it.

    The next run exits with 130 after Ctrl-C.
    """
    logs = write_logs(connection, settings, prefix, 2000)
    database = parse_database("sqlite:///projections.db", shop.folder)
    first = shop.start("project", "recent_orders")
    eventually(lambda: has_rows(database), within=120)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    port = free_port()
    second = shop.start("project", "recent_orders", "--metrics-address", str(port))
    eventually(lambda: read_tables(database) == expected_contents(logs), within=120)
    eventually(lambda: "cqrs_projection_ready 1.0" in http_text(f"http://127.0.0.1:{port}/metrics"))
    assert http_text(f"http://127.0.0.1:{port}/metrics").count("cqrs_projection_lag_events{") == 4
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130
    assert f":{first.pid}:" in err
    assert "stopped: recent_orders is at" in err
