"""A stream of 1,000,000 rows into commands, while executors and drivers are killed: each row is decided once."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.processes import executors_of
from tests.support.standalone import Cluster, cluster
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.nightly]

ROWS, BATCH, PARTITIONS = 1_000_000, 100_000, 4

#: The numbers of commands between two kills: the kills come in the middle of batches.
PAUSES = range(BATCH // 2, 3 * BATCH)

#: The stream. Its arguments: the cluster's master, the checkpoint, and the sink's options.
PROGRAM = f"""
import sys
from pyspark.sql import SparkSession
import cqrs_cli.spark
master, checkpoint, *options = sys.argv[1:]
builder = SparkSession.builder.master(master).config("spark.task.maxFailures", 100)
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false").getOrCreate()
cqrs_cli.spark.register(spark)
source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch={BATCH}, numPartitions=2).load()
rows = source.where("value < {ROWS}").selectExpr("concat('c-', value % 5000) AS subject", "value + 1 AS by")
sink = rows.writeStream.format("cqrs").options(**dict(option.split("=", 1) for option in options))
sink.option("checkpointLocation", checkpoint).start().awaitTermination()
"""


class Stream:
    """The driver of a stream, which is started again after it was killed."""

    def __init__(self, spark: Cluster, checkpoint: Path, options: dict[str, str], log: Path) -> None:
        self._arguments = [
            spark.master,
            str(checkpoint),
            *(f"{name}={text}" for name, text in options.items()),
        ]
        self._spark, self._log, self.checkpoint = spark, log, checkpoint
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._driver = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *self._arguments],
                cwd=ROOT,
                env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_driver(self) -> None:
        os.killpg(self._driver.pid, signal.SIGKILL)
        self._driver.wait()

    def kill_executors(self, generator: random.Random) -> None:
        """Kill one of the executors, or both."""
        executors = [pid for worker in self._spark.workers for pid in executors_of(worker.pid)]
        for pid in generator.sample(executors, min(len(executors), generator.randint(1, 2))):
            os.kill(pid, signal.SIGKILL)

    def has_written_all(self) -> bool:
        assert self._driver.poll() is None, self._log.read_text()[-3000:]
        return (self.checkpoint / "commits" / str(ROWS // BATCH)).exists()


@contextmanager
def streaming(*arguments: object) -> Iterator[Stream]:
    stream = Stream(*arguments)  # type: ignore[arg-type]
    try:
        yield stream
    finally:
        stream.kill_driver()


@pytest.mark.covers("decided-once")
def test_rows_are_decided_once_despite_kills(connection: Connection, prefix: str, tmp_path: Path) -> None:
    counters = TopicHarness(connection, prefix, tmp_path, "counter", PARTITIONS)
    options = {
        "project": str(ROOT),
        "bootstrapServer": connection.bootstrap_server,
        "prefix": prefix,
        "aggregate": "counter",
        "type": "Increment",
        "ids": "rows",
    }
    generator = random.Random(49)
    kills: Counter[str] = Counter()

    def sent() -> int:
        ends = readers.bounds(connection, counters.topics.commands, range(PARTITIONS))
        return sum(end for _, end in ends.values())

    with (
        cluster(tmp_path, cores=1) as spark,
        streaming(spark, tmp_path / "checkpoint", options, tmp_path / "stream.log") as stream,
    ):
        while not stream.has_written_all():
            target = sent() + generator.choice(PAUSES)
            eventually(lambda: stream.has_written_all() or sent() >= target, within=180, every=0.1)  # noqa: B023
            if generator.random() < 0.3:
                stream.kill_driver()
                stream.start()
                kills["driver"] += 1
            else:
                stream.kill_executors(generator)
                kills["executors"] += 1
    total = sent()
    run_plan(counters.plan())
    statuses = Counter(
        outcome.data.status for part in range(PARTITIONS) for outcome in counters.outcomes(part)
    )
    print(f"{kills}; {statuses}")
    assert kills.total() >= 5
    assert statuses == {"accepted": ROWS, "duplicate": total - ROWS}
    assert counters.violations() == []
