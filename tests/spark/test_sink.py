"""Rows of batches and streams on Spark become commands on a real broker; a repeated row is decided once."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cqrs_cli.spark.command_writer import CommandWriter

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RunStream = Callable[..., None]

#: An hour more than the default dedup window, in ms.
TOO_LONG = 25 * 3_600_000


@pytest.fixture
def counters(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """The topics of the aggregate `counter`, with two partitions."""
    return TopicHarness(connection, prefix, tmp_path, "counter", partitions=2)


@pytest.fixture
def options(counters: TopicHarness) -> dict[str, Any]:
    """The options of a write of increments."""
    return {
        "project": ROOT,
        "bootstrapServer": counters.connection.bootstrap_server,
        "prefix": counters.topics.prefix,
        "aggregate": "counter",
        "type": "Increment",
    }


def increments(frame: "DataFrame", *columns: str) -> "DataFrame":
    """Return increments of seven counters, from a frame with a column of numbers."""
    return frame.selectExpr("concat('c-', value % 7) AS subject", "value + 1 AS by", *columns)


def numbers(session: "SparkSession", count: int) -> "DataFrame":
    return session.range(count, numPartitions=2).withColumnRenamed("id", "value")


def write(frame: "DataFrame", options: dict[str, Any]) -> None:
    frame.write.format("cqrs").mode("append").options(**options).save()


def decide(counters: TopicHarness) -> dict[str, int]:
    """Decide all commands, and return the number of outcomes by status."""
    run_plan(counters.plan())
    return Counter(outcome.data.status for part in range(2) for outcome in counters.outcomes(part))


def total(counters: TopicHarness) -> int:
    """Return the sum of all counters, from their events."""
    return sum(
        json.loads(event.value or b"")["data"]["by"]
        for part in range(2)
        for event in counters.records("events", part)
    )


@pytest.mark.slow
@pytest.mark.covers("decided-once")
def test_repeated_rows_are_decided_once(
    session: "SparkSession", counters: TopicHarness, options: dict[str, Any]
) -> None:
    frame = increments(numbers(session, 100), "concat('order-', value) AS id")
    write(frame, options)
    write(frame, options)
    assert decide(counters) == {"accepted": 100, "duplicate": 100}
    assert total(counters) == 5050


@pytest.mark.covers("decided-once")
def test_repeated_task_has_the_same_ids(
    session: "SparkSession", counters: TopicHarness, options: dict[str, Any]
) -> None:
    """Spark repeats a task with the writer of the first attempt."""
    import pyarrow
    from pyspark.sql.types import StructType

    from cqrs_cli.spark.command_writer import batch_writer

    texts = {name: str(value) for name, value in options.items()}
    schema = StructType().add("subject", "string").add("by", "long")
    writer = batch_writer(texts | {"ids": "rows"}, schema, False)
    rows = pyarrow.record_batch({"subject": ["a"] * 5, "by": [1] * 5})

    def task(writer: "CommandWriter") -> Iterator[int]:
        writer.write(iter([rows, rows]))
        yield 0

    for _ in range(2):
        session.sparkContext.parallelize(range(2), 2).mapPartitions(lambda _: task(writer)).collect()
    assert decide(counters) == {"accepted": 20, "duplicate": 20}


@pytest.fixture
def run_stream(session: "SparkSession", options: dict[str, Any], tmp_path: Path) -> RunStream:
    """A function that streams new files of numbers as commands, from the checkpoint on."""

    def stream(*columns: str, **more_options: Any) -> None:
        frame = increments(session.readStream.schema("value int").json(str(tmp_path / "in")), *columns)
        writer = frame.writeStream.format("cqrs").options(**options | more_options)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    return stream


def add_file(folder: Path, values: range) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = "".join(f'{{"value":{value}}}\n' for value in values)
    (folder / "in" / f"{values.start}.json").write_text(lines)


def forget_commit(folder: Path, number: int) -> None:
    """Undo the commit of a stream's batch, as if the driver had been killed before it: Spark repeats the batch."""
    for file in (folder / "checkpoint/commits").glob(f"*{number}*"):
        file.unlink()


def stream_error(run_stream: RunStream, *columns: str, **options: Any) -> str:
    """Return our line in the error that ends a stream."""
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException) as raised:
        run_stream(*columns, **options)
    return next(line for line in str(raised.value).splitlines() if "cqrs_cli.errors." in line)


@pytest.mark.slow
@pytest.mark.covers("decided-once")
def test_repeated_batch_is_decided_once(
    run_stream: RunStream, counters: TopicHarness, tmp_path: Path
) -> None:
    """A row of each batch is invalid, and is in one file."""
    expected = "if(value % 10 = 3, 'soon', null) AS expected"
    for number, values in enumerate((range(10), range(10, 20))):
        add_file(tmp_path, values)
        run_stream(expected, ids="rows", badRecordsPath=tmp_path / "bad")
        forget_commit(tmp_path, number)
        run_stream(expected, ids="rows", badRecordsPath=tmp_path / "bad")
    assert decide(counters) == {"accepted": 18, "duplicate": 18}
    assert total(counters) == 210 - 4 - 14
    assert counters.violations() == []
    bad_rows = [json.loads(file.read_text()) for file in sorted((tmp_path / "bad").iterdir())]
    assert [bad_row["row"]["by"] for bad_row in bad_rows] == [4, 14]
    assert bad_rows[0]["reason"].startswith("column expected: ")


@pytest.mark.slow
def test_batch_beyond_the_window_is_refused(
    run_stream: RunStream, counters: TopicHarness, tmp_path: Path
) -> None:
    add_file(tmp_path, range(10))
    run_stream("string(value) AS id")
    forget_commit(tmp_path, 0)
    offsets = tmp_path / "checkpoint/offsets/0"
    version, times, *sources = offsets.read_text().splitlines()
    first_try = json.loads(times) | {"batchTimestampMs": time.time_ns() // 1_000_000 - TOO_LONG}
    offsets.write_text("\n".join([version, json.dumps(first_try), *sources]))
    (tmp_path / "checkpoint/offsets/.0.crc").unlink()
    line = stream_error(run_stream, "string(value) AS id")
    assert "batch 0 was first tried at " in line and "owners remember ids for 1d only" in line
    assert "set dedup_window to 26h" in line
    assert len(counters.records("commands", 0)) + len(counters.records("commands", 1)) == 10


@pytest.mark.slow
def test_stream_with_state_needs_ids(
    session: "SparkSession", options: dict[str, Any], tmp_path: Path
) -> None:
    def run(ids: str, *columns: str) -> None:
        add_file(tmp_path, range(3))
        values = session.readStream.schema("value int").json(str(tmp_path / "in")).dropDuplicates()
        writer = increments(values, *columns).writeStream.format("cqrs")
        query = writer.options(**options | {"ids": ids}).option("checkpointLocation", str(tmp_path / "c"))
        query.trigger(availableNow=True).start().awaitTermination()

    assert "option ids: rows are numbered in their order, which a query with state" in stream_error(
        lambda: run("rows")
    )
    run("column", "string(value) AS id")


def error_line(frame: "DataFrame", options: dict[str, Any]) -> str:
    """Return our line in the error of a write that fails."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as raised:
        write(frame, options)
    message = str(raised.value)
    assert "Traceback" not in message
    return next(line for line in message.splitlines() if "cqrs_cli.errors." in line)


@pytest.mark.parametrize(
    ("column", "wrong_options", "text"),
    [
        ("if(value = 3, null, string(value)) AS id", {}, "row 1, id None: column id is null"),
        ("'x' AS notes", {}, "counter.Increment has no column 'notes'; known: id, subject,"),
        ("'x' AS id", {"prefix": "missing."}, "topic missing.counter.commands does not exist"),
    ],
)
def test_wrong_write_is_one_line(
    session: "SparkSession", options: dict[str, Any], column: str, wrong_options: dict[str, Any], text: str
) -> None:
    assert text in error_line(increments(numbers(session, 4), column), options | wrong_options)


@pytest.mark.slow
def test_rows_in_a_repeated_job_need_ids(session: "SparkSession", options: dict[str, Any]) -> None:
    """`foreachBatch` starts a new job for a repeated batch, which would have new ids."""
    session.sparkContext.setLocalProperty("streaming.sql.batchId", "3")
    try:
        line = error_line(increments(numbers(session, 4)), options | {"ids": "rows"})
    finally:
        session.sparkContext.setLocalProperty("streaming.sql.batchId", None)  # type: ignore[arg-type]
    assert "a batch that foreachBatch repeats would have new ids" in line
