"""Streams on Spark against a real broker: each record is in exactly one batch, also after interruptions."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqrs_cli.kafka.admin.repartitioning import add_partitions
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.spark.feeding import append, options, placed, transaction
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.topic_loss import delete_records_before, recreate_topics
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from cqrs_cli.spark.stream import StreamReader

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Runs = Callable[..., "StreamingQuery"]


@pytest.fixture
def run(session: "SparkSession", tmp_path: Path) -> Runs:
    """A function that streams all existing records into files, from the checkpoint on."""

    def runs(given: dict[str, Any]) -> "StreamingQuery":
        frame = session.readStream.format("cqrs").options(**given).load()
        writer = frame.select("partition", "subject").writeStream.format("json")
        places = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "rows")}
        query = writer.options(**places).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return runs


@pytest.fixture
def written(session: "SparkSession", tmp_path: Path) -> Callable[[], list[int]]:
    """A function that returns the orders in the files, sorted."""

    def reads() -> list[int]:
        rows = session.read.schema("partition int, subject string").json(str(tmp_path / "rows")).collect()
        return sorted(int(row.subject.removeprefix("o-")) for row in rows)

    return reads


def test_stream_goes_on_from_its_checkpoint(
    run: Runs, written: Callable[[], list[int]], connection: Connection, orders: Topics
) -> None:
    given = options(connection, orders.prefix)
    for turn in range(3):
        append(connection, orders.events, [placed(turn)], partition=turn % 2)
        transaction(connection, orders.events, [placed(99)], 0, commit=False)
        run(given)
        assert written() == list(range(turn + 1))


def test_stream_reads_partitions_that_come(
    run: Runs, written: Callable[[], list[int]], connection: Connection, orders: Topics
) -> None:
    """New partitions are read from their first record on, including records from before the stream noticed them."""
    append(connection, orders.events, [placed(0)])
    run(options(connection, orders.prefix, startingOffsets="latest"))
    with Admin(connection) as admin:
        add_partitions(admin, orders, 4)
    append(connection, orders.events, [placed(1)])
    append(connection, orders.events, [placed(2)], partition=3)
    run(options(connection, orders.prefix, startingOffsets="latest"))
    assert written() == [1, 2]


@pytest.mark.slow
def test_batches_keep_to_their_limit(
    run: Runs, written: Callable[[], list[int]], connection: Connection, orders: Topics
) -> None:
    for number in range(10):
        append(connection, orders.events, [placed(number)], partition=number % 2)
    query = run(options(connection, orders.prefix, maxRecordsPerBatch=4))
    counts = [int(one["numInputRows"]) for one in query.recentProgress]
    assert max(counts) <= 4 and sum(counts) == 10
    assert written() == list(range(10))


def failure(run: Runs, given: dict[str, Any]) -> str:
    """Return our line in the error that ends a stream."""
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException) as ended:
        run(given)
    return next(line for line in str(ended.value).splitlines() if "cqrs_cli.errors." in line)


def test_topic_made_again_ends_the_stream(
    run: Runs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    """The offsets of the checkpoint exist again in the new topic."""
    harness = TopicHarness(connection, prefix, tmp_path, "order")
    append(connection, harness.topics.events, map(placed, range(2)))
    run(options(connection, prefix))
    recreate_topics(harness, "events")
    append(connection, harness.topics.events, map(placed, range(5)))
    line = failure(run, options(connection, prefix))
    assert f"ContradictionError: {prefix}order.events was deleted and made again" in line


def test_retention_past_the_checkpoint_is_told(
    run: Runs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "order")
    append(connection, harness.topics.events, map(placed, range(2)))
    run(options(connection, prefix))
    append(connection, harness.topics.events, map(placed, range(5)))
    delete_records_before(harness, "events", 4)
    line = failure(run, options(connection, prefix))
    assert "the checkpoint is at 2, but the records before 4 are deleted" in line


def test_checkpoint_of_another_topic_is_refused(
    run: Runs, connection: Connection, orders: Topics, prefix: str
) -> None:
    append(connection, orders.events, [placed(1)])
    run(options(connection, prefix))
    assert "the checkpoint is of" in failure(run, options(connection, prefix, topic="outcomes"))


@pytest.mark.parametrize("name", ["until", "endingOffsets"])
def test_streams_have_no_end(run: Runs, connection: Connection, orders: Topics, name: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=f"option {name}: a stream has no such option"):
        run(options(connection, orders.prefix, **{name: "latest" if name == "endingOffsets" else "1m"}))


def reader(connection: Connection, topics: Topics, **asked: Any) -> "StreamReader":
    """Return a stream's reader, as PySpark's process creates it."""
    from cqrs_cli.spark.source import CqrsDataSource

    given = options(connection, topics.prefix, **asked)
    source = CqrsDataSource({key: str(one) for key, one in given.items()})
    made: StreamReader = source.streamReader(source.schema())  # type: ignore[assignment]
    return made


def test_cut_off_first_batch_is_whole(connection: Connection, orders: Topics) -> None:
    """After an interrupted first batch, PySpark asks again for the start of the stream. `latest` is later then."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    append(connection, orders.events, [placed(0)])
    before = reader(connection, orders, startingOffsets="latest")
    begin = before.initialOffset()
    append(connection, orders.events, [placed(1), placed(2)])
    end = before.latestOffset(begin, ReadAllAvailable())
    before.stop()
    again = reader(connection, orders, startingOffsets="latest")
    append(connection, orders.events, [placed(3)])
    parts = again.partitions(again.initialOffset(), end)
    following = again.partitions(end, again.latestOffset(end, ReadAllAvailable()))
    again.stop()
    assert [tuple(part.value) for part in (*parts, *following)] == [(0, 1, 3), (0, 3, 4)]


def test_nothing_new_is_the_same_offset(connection: Connection, orders: Topics) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    append(connection, orders.events, [placed(0)])
    made = reader(connection, orders, maxRecordsPerBatch=1)
    assert made.getDefaultReadLimit() == ReadMaxRows(1)
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    assert str(made.latestOffset(end, ReadMaxRows(1))) == str(end)
    made.stop()


PROGRAM = """
import sys
from pathlib import Path
import cqrs_cli.spark
from cqrs_cli.jobs.engine.session import dataframes, session
folder = Path(sys.argv[1])
with session("local[2]", {}, folder / "spark.log", "killed") as context:
    spark = dataframes(context)
    cqrs_cli.spark.register(spark)
    frame = spark.readStream.format("cqrs").options(**dict(one.split("=", 1) for one in sys.argv[2:])).load()
    places = {"checkpointLocation": str(folder / "checkpoint"), "path": str(folder / "rows")}
    query = frame.select("partition", "subject").writeStream.format("json").options(**places).start()
    query.awaitTermination()
"""


@pytest.mark.slow
def test_killed_stream_loses_and_repeats_nothing(
    run: Runs, written: Callable[[], list[int]], connection: Connection, orders: Topics, tmp_path: Path
) -> None:
    for partition in range(2):
        numbers = range(partition, 600, 2)
        append(connection, orders.events, map(placed, numbers), partition)
    given = options(connection, orders.prefix, maxRecordsPerBatch=60)
    arguments = [f"{name}={value}" for name, value in given.items()]
    commits = tmp_path / "checkpoint/commits"
    for wanted in (1, 3):
        driver = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), *arguments], cwd=ROOT, start_new_session=True
        )
        try:
            eventually(lambda wanted=wanted: (commits / str(wanted)).exists(), within=120)  # type: ignore[misc]
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    run(given)
    assert written() == list(range(600))
