"""Replay on Spark against a real broker: totals, times, files and inconsistencies."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError, UsageError
from cqrs_cli.jobs.engine.staging import Target, staged_writer
from cqrs_cli.jobs.replay.driver import ReplaySummary, parts_per_partition, plan_replay, replay_events
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.scans.replay.fold import EMPTY_TOTAL
from tests.support import ROOT
from tests.support.eventlog import NOON, append_records, counter_event, create_topics

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ONE_O_CLOCK = "2026-11-21T13:00:00.000Z"
Replay = Callable[..., ReplaySummary]


@pytest.fixture
def topics(connection: Connection, prefix: str) -> Topics:
    """The topics of the aggregate `counter`, with two partitions."""
    topics = Topics("counter", prefix)
    create_topics(connection, topics, partitions=2)
    return topics


@pytest.fixture
def append_events(connection: Connection, topics: Topics) -> Callable[..., None]:
    """A function that appends events to a partition."""
    return lambda partition, *values: append_records(connection, topics.events, partition, values)


@pytest.fixture
def replay(spark: "SparkContext", connection: Connection, topics: Topics) -> Replay:
    """A function that replays the committed events."""

    def run_replay(target: Target | None = None, parts: int = 1, **request: Any) -> ReplaySummary:
        plan = plan_replay(connection, topics, "aggregates", ROOT, **request)
        return replay_events(spark, replace(plan, parts=parts), target)

    return run_replay


def test_all_partitions_make_one_total(replay: Replay, append_events: Callable[..., None]) -> None:
    append_events(0, counter_event("a", 1), counter_event("a", 2))
    append_events(1, counter_event("b", 1))
    assert replay().total[:2] == (2, 3)


@pytest.mark.covers("state-is-events")
def test_digest_is_independent_of_tasks(replay: Replay, append_events: Callable[..., None]) -> None:
    append_events(0, *(counter_event(f"a{number}", version) for version in (1, 2) for number in range(20)))
    append_events(1, counter_event("b", 1))
    assert replay(parts=3).total == replay().total


@pytest.mark.parametrize(
    ("tasks", "partitions", "parts"), [(2, 4, 1), (2, 2, 1), (3, 2, 1), (8, 2, 4), (2, 0, 2)]
)
def test_tasks_without_partition_get_parts(tasks: int, partitions: int, parts: int) -> None:
    assert parts_per_partition(tasks, partitions) == parts


def test_empty_topic_replays_to_nothing(replay: Replay) -> None:
    assert replay().total == EMPTY_TOTAL


@pytest.mark.covers("state-is-events")
def test_digest_is_independent_of_partitions(replay: Replay, append_events: Callable[..., None]) -> None:
    append_events(0, counter_event("a", 1), counter_event("b", 1))
    first_digest = replay().total.digest
    append_events(1, counter_event("c", 1))
    three_aggregates = replay().total
    append_events(0, counter_event("c", 1))
    assert three_aggregates.digest != first_digest
    assert replay().total.digest == (2 * three_aggregates.digest - first_digest) % 2**256


def test_until_is_per_aggregate(replay: Replay, append_events: Callable[..., None]) -> None:
    append_events(
        0,
        counter_event("a", 1),
        counter_event("a", 2, time=ONE_O_CLOCK),
        counter_event("b", 1, time=ONE_O_CLOCK),
    )
    assert replay(until=NOON).total[:2] == (1, 1)


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_aggregates_are_written_as_rows(
    replay: Replay, append_events: Callable[..., None], tmp_path: Path, format: Any
) -> None:
    append_events(0, counter_event("a", 1, 2))
    append_events(1, counter_event("b", 1, time=ONE_O_CLOCK))
    summary = replay(Target(str(tmp_path / "out"), format), parts=2)
    assert summary.total[:2] == (2, 2)
    if format == "json":
        rows: list[Any] = [
            {"time": NOON, "state": {"value": 2}},
            {"time": ONE_O_CLOCK, "state": {"value": 1}},
        ]
    else:
        times = [datetime(2026, 11, 21, hour, tzinfo=UTC) for hour in (12, 13)]
        rows = [{"time": times[0], "value": 2}, {"time": times[1], "value": 1}]
    assert read(tmp_path / "out", format) == [
        {"id": "a", "version": 1, **rows[0]},
        {"id": "b", "version": 1, **rows[1]},
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_parquet_has_the_fields_types(
    replay: Replay, append_events: Callable[..., None], tmp_path: Path
) -> None:
    import pyarrow.parquet

    append_events(0, counter_event("a", 1, 2))
    replay(Target(str(tmp_path / "out"), "parquet"))
    (file,) = (tmp_path / "out").glob("*0000-*.parquet")
    schema = pyarrow.parquet.read_schema(file)
    assert [(name, str(type)) for name, type in zip(schema.names, schema.types, strict=True)] == [
        ("id", "string"),
        ("version", "int64"),
        ("time", "timestamp[us, tz=UTC]"),
        ("value", "int64"),
    ]


def read(folder: Path, format: str) -> list[dict[str, Any]]:
    if format == "json":
        rows = [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    else:
        import pyarrow.parquet

        rows = pyarrow.parquet.read_table(folder).to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def test_full_folder_is_refused(replay: Replay, tmp_path: Path) -> None:
    (tmp_path / "existing.json").touch()
    with pytest.raises(UsageError, match="is not empty"):
        replay(Target(str(tmp_path), "json"))
    assert list(tmp_path.iterdir()) == [tmp_path / "existing.json"]


def test_folder_filled_by_another_replay_stays(spark: "SparkContext", tmp_path: Path) -> None:
    """Another replay has written into the folder at the same time."""
    out = tmp_path / "out"
    with (
        pytest.raises(ConfigurationError, match="cannot write"),
        staged_writer(spark, Target(str(out), "json")),
    ):
        out.mkdir()
        (out / "other.json").touch()
    assert (list(tmp_path.iterdir()), list(out.iterdir())) == ([out], [out / "other.json"])


@pytest.mark.parametrize("writes_files", [True, False])
def test_contradiction_names_its_offset(
    replay: Replay, append_events: Callable[..., None], topics: Topics, tmp_path: Path, writes_files: bool
) -> None:
    append_events(1, counter_event("a", 1), counter_event("a", 3))
    with pytest.raises(ContradictionError) as raised:
        replay(Target(str(tmp_path / "out"), "json") if writes_files else None)
    assert raised.value.message.startswith(f"{topics.events} partition 1 offset 1: 'a' is at version 1")
    assert raised.value.hint.endswith("cqrs tail counter events --partition 1 --from 1 -n 1")
    assert list(tmp_path.iterdir()) == []


def test_missing_topic_is_a_configuration_error(connection: Connection, prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        plan_replay(connection, Topics("nothing", prefix), "aggregates", ROOT)


@pytest.mark.slow
def test_command_prints_its_document(
    connection: Connection, topics: Topics, append_events: Callable[..., None], tmp_path: Path
) -> None:
    append_events(0, counter_event("a", 1))
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(ROOT / "aggregates")
    command = [
        sys.executable,
        "-m",
        "cqrs_cli",
        "replay",
        "counter",
        "-o",
        "json",
        "-q",
        "--master",
        "local[2]",
    ]
    process = subprocess.run(
        [*command, "--at", "2026-11-21T13:00:00+01:00"],
        cwd=tmp_path,
        env={
            **os.environ,
            "CQRS_BOOTSTRAP_SERVER": connection.bootstrap_server,
            "CQRS_TOPIC_PREFIX": topics.prefix,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (process.stderr, process.returncode) == ("", 0)
    document = json.loads(process.stdout)
    assert list(document) == ["aggregate", "aggregates", "events", "digest", "at", "seconds"]
    assert [document[name] for name in ("aggregates", "events", "at")] == [1, 1, NOON]
    assert len(document["digest"]) == 64
