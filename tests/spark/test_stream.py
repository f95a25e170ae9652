"""Streams on Spark against a real broker: each record is in exactly one batch, also after interruptions."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.added_partitions import add_partitions
from tests.spark.order_topics import append, placed_event, read_options, write_transaction
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.topic_loss import delete_records_before, recreate_topics
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from cqrs_cli.spark.stream import StreamReader

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RunStream = Callable[..., "StreamingQuery"]


@pytest.fixture
def run_stream(session: "SparkSession", tmp_path: Path) -> RunStream:
    """A function that streams all existing records into files, from the checkpoint on."""

    def stream(options: dict[str, Any]) -> "StreamingQuery":
        frame = session.readStream.format("cqrs").options(**options).load()
        writer = frame.select("partition", "subject").writeStream.format("json")
        paths = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "rows")}
        query = writer.options(**paths).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return stream


@pytest.fixture
def written_orders(session: "SparkSession", tmp_path: Path) -> Callable[[], list[int]]:
    """A function that returns the orders in the files, sorted."""

    def read_orders() -> list[int]:
        rows = session.read.schema("partition int, subject string").json(str(tmp_path / "rows")).collect()
        return sorted(int(row.subject.removeprefix("o-")) for row in rows)

    return read_orders


def test_stream_continues_from_its_checkpoint(
    run_stream: RunStream, written_orders: Callable[[], list[int]], connection: Connection, orders: Topics
) -> None:
    options = read_options(connection, orders.prefix)
    for number in range(3):
        append(connection, orders.events, [placed_event(number)], partition=number % 2)
        write_transaction(connection, orders.events, [placed_event(99)], 0, commit=False)
        run_stream(options)
        assert written_orders() == list(range(number + 1))


def test_stream_reads_new_partitions(
    run_stream: RunStream, written_orders: Callable[[], list[int]], connection: Connection, orders: Topics
) -> None:
    """New partitions are read from their first record on, including records from before the stream noticed them."""
    append(connection, orders.events, [placed_event(0)])
    run_stream(read_options(connection, orders.prefix, startingOffsets="latest"))
    with Admin(connection) as admin:
        add_partitions(admin, orders, 4)
    append(connection, orders.events, [placed_event(1)])
    append(connection, orders.events, [placed_event(2)], partition=3)
    run_stream(read_options(connection, orders.prefix, startingOffsets="latest"))
    assert written_orders() == [1, 2]


@pytest.mark.slow
def test_batches_keep_to_their_limit(
    run_stream: RunStream, written_orders: Callable[[], list[int]], connection: Connection, orders: Topics
) -> None:
    for number in range(10):
        append(connection, orders.events, [placed_event(number)], partition=number % 2)
    query = run_stream(read_options(connection, orders.prefix, maxRecordsPerBatch=4))
    counts = [int(progress["numInputRows"]) for progress in query.recentProgress]
    assert max(counts) <= 4 and sum(counts) == 10
    assert written_orders() == list(range(10))


def stream_error(run_stream: RunStream, options: dict[str, Any]) -> str:
    """Return our line in the error that ends a stream."""
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException) as raised:
        run_stream(options)
    return next(line for line in str(raised.value).splitlines() if "cqrs_cli.errors." in line)


def test_recreated_topic_ends_the_stream(
    run_stream: RunStream, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    """The offsets of the checkpoint exist again in the new topic."""
    harness = TopicHarness(connection, prefix, tmp_path, "order")
    append(connection, harness.topics.events, map(placed_event, range(2)))
    run_stream(read_options(connection, prefix))
    recreate_topics(harness, "events")
    append(connection, harness.topics.events, map(placed_event, range(5)))
    line = stream_error(run_stream, read_options(connection, prefix))
    assert f"ContradictionError: {prefix}order.events was deleted and recreated" in line


def test_retention_past_the_checkpoint_is_reported(
    run_stream: RunStream, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "order")
    append(connection, harness.topics.events, map(placed_event, range(2)))
    run_stream(read_options(connection, prefix))
    append(connection, harness.topics.events, map(placed_event, range(5)))
    delete_records_before(harness, "events", 4)
    line = stream_error(run_stream, read_options(connection, prefix))
    assert "the checkpoint is at 2, but the records before 4 are deleted" in line


def test_checkpoint_of_another_topic_is_refused(
    run_stream: RunStream, connection: Connection, orders: Topics, prefix: str
) -> None:
    append(connection, orders.events, [placed_event(1)])
    run_stream(read_options(connection, prefix))
    assert "the checkpoint is of" in stream_error(
        run_stream, read_options(connection, prefix, topic="outcomes")
    )


@pytest.mark.parametrize("name", ["until", "endingOffsets"])
def test_streams_have_no_end(
    run_stream: RunStream, connection: Connection, orders: Topics, name: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=f"option {name}: a stream has no such option"):
        run_stream(
            read_options(connection, orders.prefix, **{name: "latest" if name == "endingOffsets" else "1m"})
        )


def make_stream_reader(connection: Connection, topics: Topics, **more_options: Any) -> "StreamReader":
    """Return a stream's reader, as PySpark's process creates it."""
    from cqrs_cli.spark.source import CqrsDataSource

    options = read_options(connection, topics.prefix, **more_options)
    source = CqrsDataSource({key: str(value) for key, value in options.items()})
    stream_reader: StreamReader = source.streamReader(source.schema())  # type: ignore[assignment]
    return stream_reader


def test_interrupted_first_batch_is_repeated(connection: Connection, orders: Topics) -> None:
    """After an interrupted first batch, PySpark asks again for the start of the stream. `latest` is later then."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    append(connection, orders.events, [placed_event(0)])
    first_reader = make_stream_reader(connection, orders, startingOffsets="latest")
    start = first_reader.initialOffset()
    append(connection, orders.events, [placed_event(1), placed_event(2)])
    end = first_reader.latestOffset(start, ReadAllAvailable())
    first_reader.stop()
    second_reader = make_stream_reader(connection, orders, startingOffsets="latest")
    append(connection, orders.events, [placed_event(3)])
    parts = second_reader.partitions(second_reader.initialOffset(), end)
    next_parts = second_reader.partitions(end, second_reader.latestOffset(end, ReadAllAvailable()))
    second_reader.stop()
    assert [tuple(part.value) for part in (*parts, *next_parts)] == [(0, 1, 3), (0, 3, 4)]


def test_offset_stays_without_new_records(connection: Connection, orders: Topics) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    append(connection, orders.events, [placed_event(0)])
    stream_reader = make_stream_reader(connection, orders, maxRecordsPerBatch=1)
    assert stream_reader.getDefaultReadLimit() == ReadMaxRows(1)
    end = stream_reader.latestOffset(stream_reader.initialOffset(), ReadAllAvailable())
    assert str(stream_reader.latestOffset(end, ReadMaxRows(1))) == str(end)
    stream_reader.stop()


PROGRAM = """
import sys
from pathlib import Path
import cqrs_cli.spark
from cqrs_cli.jobs.engine.session import dataframes, session
folder = Path(sys.argv[1])
with session("local[2]", {}, folder / "spark.log", "killed") as context:
    spark = dataframes(context)
    cqrs_cli.spark.register(spark)
    frame = spark.readStream.format("cqrs").options(**dict(option.split("=", 1) for option in sys.argv[2:])).load()
    paths = {"checkpointLocation": str(folder / "checkpoint"), "path": str(folder / "rows")}
    query = frame.select("partition", "subject").writeStream.format("json").options(**paths).start()
    query.awaitTermination()
"""


@pytest.mark.nightly
def test_killed_stream_loses_and_repeats_nothing(
    run_stream: RunStream,
    written_orders: Callable[[], list[int]],
    connection: Connection,
    orders: Topics,
    tmp_path: Path,
) -> None:
    for partition in range(2):
        numbers = range(partition, 600, 2)
        append(connection, orders.events, map(placed_event, numbers), partition)
    options = read_options(connection, orders.prefix, maxRecordsPerBatch=60)
    arguments = [f"{name}={value}" for name, value in options.items()]
    commits = tmp_path / "checkpoint/commits"
    for commit in (1, 3):
        driver = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), *arguments], cwd=ROOT, start_new_session=True
        )
        try:
            eventually(lambda commit=commit: (commits / str(commit)).exists(), within=120)  # type: ignore[misc]
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    run_stream(options)
    assert written_orders() == list(range(600))
