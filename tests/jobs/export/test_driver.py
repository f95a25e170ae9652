"""Export on Spark against a real broker."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.errors import ContradictionError
from cqrs_cli.jobs.engine.staging import FileFormat, Target
from cqrs_cli.jobs.export.driver import ExportResult, export_events, plan_export
from cqrs_cli.jobs.replay.driver import plan_replay, replay_events
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.support import ROOT
from tests.support.eventlog import append_records, counter_event, create_topics

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

EVENTS = [counter_event("a", 1), counter_event("b", 1, 5), counter_event("a", 2), counter_event("c", 1)]
Export = Callable[..., ExportResult]


@pytest.fixture
def export(spark: "SparkContext", connection: Connection, prefix: str, tmp_path: Path) -> Export:
    """A function that writes events to the given number of partitions, and exports them to a folder with this name."""

    def write_and_export(partitions: int, format: FileFormat, values: list[bytes] = EVENTS) -> ExportResult:
        topics = Topics("counter", f"{prefix}{partitions}.")
        create_topics(connection, topics, partitions)
        for value in values:
            partition = ord(json.loads(value)["subject"]) % partitions
            append_records(connection, topics.events, partition, [value])
        plan = plan_export(connection, topics, "aggregates", ROOT)
        summary = export_events(spark, plan, Target(str(tmp_path / str(partitions)), format))
        if format == "parquet":
            states = Target(str(tmp_path / f"states-{partitions}"), "parquet")
            replay_events(spark, plan_replay(connection, topics, "aggregates", ROOT), states)
        return summary

    return write_and_export


def read_rows(folder: Path, *dropped_columns: str) -> list[dict[str, Any]]:
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(folder).drop_columns(list(dropped_columns)).to_pylist()
    return sorted(rows, key=lambda row: (row.get("subject", row["id"]), row["version"]))


def test_exported_files_are_private(export: Export, tmp_path: Path) -> None:
    export(1, "jsonl")
    (file,) = (tmp_path / "1").glob("*.jsonl")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "1", file)] == [0o700, 0o600]


@pytest.mark.nightly
@pytest.mark.slow
def test_partitions_do_not_change_rows(export: Export, tmp_path: Path) -> None:
    """Rows of events differ only in partition and offset; rows of states do not differ."""
    columns = ("partition", "offset")
    assert [export(count, "parquet").events for count in (1, 3)] == [4, 4]
    assert read_rows(tmp_path / "1", *columns) == read_rows(tmp_path / "3", *columns)
    assert [row["Incremented"] for row in read_rows(tmp_path / "1")] == [{"by": by} for by in (1, 1, 5, 1)]
    assert read_rows(tmp_path / "states-1") == read_rows(tmp_path / "states-3")
    assert [(row["id"], row["value"]) for row in read_rows(tmp_path / "states-1")] == [
        ("a", 2),
        ("b", 5),
        ("c", 1),
    ]


def test_lines_are_cloud_events(export: Export, tmp_path: Path) -> None:
    assert export(2, "jsonl").events == 4
    lines = [line for file in (tmp_path / "2").glob("*.jsonl") for line in file.read_bytes().splitlines()]
    assert sorted(lines) == sorted(EVENTS)


def test_an_unreadable_event_writes_nothing(export: Export, tmp_path: Path) -> None:
    with pytest.raises(ContradictionError, match=r"partition 0 offset 1: .*knows no event"):
        export(1, "parquet", [EVENTS[0], counter_event("a", 2, type="Gone")])
    assert not (tmp_path / "1").exists()
