"""The progress of a database's projections in `cqrs status --projections`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.cli.main import main
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.following.projections.database import open_database, parse_database
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.files import database_file
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.prepare import prepare_projection, stable_ends
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.following.projections.stored_errors import StoredError, read_errors
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.status.projections import projection_statuses
from tests.following.projections.projector_harness import (
    command_line_url,
    open_engine,
    random_log,
    recent_orders,
)
from tests.following.projections.topics import create_order_topics, write_events
from tests.support import ROOT


@pytest.mark.kafka
def test_status_shows_projections_lag(
    connection: Connection,
    prefix: str,
    database: DatabaseAddress,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topics, log = create_order_topics(connection, prefix, partitions=2), random_log(0, 60)
    write_events(connection, topics.events, 0, log[:40])
    settings = load_settings({"topic_prefix": prefix}, ROOT)
    plan = prepare_projection(settings, connection, recent_orders(), database, print).live
    project_partitions(replace(plan, end_offsets=stable_ends(plan)), plan.sources, recent_orders(), print)
    run_projectors = stable_ends(plan)[plan.sources[0]]
    write_events(connection, topics.events, 0, log[40:])
    monkeypatch.chdir(ROOT)
    with open_engine(database) as engine:
        StoredError(engine, plan, plan.sources[1]).store(CqrsError("it raised"), 7)
    shadow = prepare_projection(settings, connection, recent_orders(), database, print, rebuild=True).new
    assert shadow is not None
    with open_engine(shadow.database) as engine:
        StoredError(engine, shadow, shadow.sources[0]).store(CqrsError("the rebuild raised"), 3)
    url = command_line_url(database)
    call = ["status", "order", "--projections", url, "--topic-prefix", prefix, "-q"]
    call += ["-b", connection.bootstrap_server]
    capfd.readouterr()
    assert main([*call, "-o", "json"]) == 0
    (name, projection), *other_projections = json.loads(capfd.readouterr().out)["projections"].items()
    end = stable_ends(plan)[plan.sources[0]]
    assert (name, other_projections, projection["lag"]) == (
        "recent_orders",
        [],
        end - run_projectors,
    ) and end > run_projectors
    first, second = projection["partitions"]
    assert (first["topic"], first["partition"]) == (topics.events, 0)
    assert (first["position"], first["end"], second["lag"]) == (run_projectors, end, 0)
    error = second["last_error"]
    assert (first["last_error"], error["type"], error["message"], error["offset"]) == (
        None,
        "CqrsError",
        "it raised",
        7,
    )
    rebuild_error = first["rebuild_error"]
    assert (rebuild_error["message"], rebuild_error["offset"], second["rebuild_error"]) == (
        "the rebuild raised",
        3,
        None,
    )
    assert main(call) == 0
    output = capfd.readouterr().out
    assert f"{topics.events} 0" in output and f"{topics.events} 1: at {error['time']}: it raised" in output
    assert f"{topics.events} 0: rebuild failed at {rebuild_error['time']}: the rebuild raised" in output


@pytest.mark.kafka
@pytest.mark.parametrize(
    "kind", ["sqlite_database", pytest.param("duckdb_database", marks=pytest.mark.database)]
)
def test_status_creates_no_shadow_file(
    connection: Connection,
    prefix: str,
    kind: str,
    request: pytest.FixtureRequest,
) -> None:
    database: DatabaseAddress = request.getfixturevalue(kind)
    create_order_topics(connection, prefix, partitions=1)
    settings = load_settings({"topic_prefix": prefix}, ROOT)
    prepare_projection(settings, connection, recent_orders(), database, print)
    address = dialect_of(database).shadow_address(database, "recent_orders")
    shadow = database_file(address)
    shadow.touch()
    status = projection_statuses(connection, database)[0]
    assert (status.rebuild_error, shadow.stat().st_size) == (None, 0)
    shadow.unlink()
    with pytest.raises(SQLAlchemyError):
        read_errors(open_database(address, reads_only=True))
    assert not shadow.exists()


def test_database_without_positions_exits_3(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no projection has a position in sqlite:"):
        projection_statuses(Connection("nowhere:1"), parse_database("sqlite:///none.db", tmp_path))
    assert list(tmp_path.iterdir()) == []
