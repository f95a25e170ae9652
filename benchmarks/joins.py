"""Rate of the data source: how fast Spark reads events as rows, and one type's fields as columns, on two cores."""

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environment import Environment, cpu_seconds, new_environment
from benchmarks.project import write_deposits
from benchmarks.report import report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The selections to read: all events, and the events of one type. Each row is created and dropped.
READS: dict[str, dict[str, str]] = {"events": {}, "events of one type": {"type": "Deposited"}}

#: A user's own session compiles to fast code, Java's default; the sessions of cqrs jobs compile quickly.
USER_SESSION_OPTIONS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=2_000_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    arguments = options.parse_args()
    with new_environment() as environment:
        write_deposits(
            environment,
            environment.topics("bank_account", arguments.partitions),
            arguments.events,
            arguments.partitions,
        )
        rows = measure(environment, arguments.events, arguments.runs)
    report("joins", rows)


def measure(environment: Environment, events: int, runs: int) -> list[dict[str, object]]:
    """Measure each selection several times, in one session, after a warm-up."""
    from cqrs_cli.jobs.engine.session import dataframes, session
    from cqrs_cli.spark import register

    rows: list[dict[str, object]] = []
    with session("local[2]", USER_SESSION_OPTIONS, environment.root / "spark.log", "joins") as context:
        spark = dataframes(context)
        register(spark)
        for label, query in READS.items():
            read(spark, environment, query).count()
            for _ in range(runs):
                start, cpu_before, broker_before = (
                    time.monotonic(),
                    spark_cpu_seconds(environment),
                    environment.broker_cpu(),
                )
                read(spark, environment, query).write.format("noop").mode("overwrite").save()
                seconds = time.monotonic() - start
                rows.append(
                    {
                        "what": label,
                        "events_per_s": events / seconds,
                        "cpu_us_per_event": (spark_cpu_seconds(environment) - cpu_before) / events * 1e6,
                        "broker_us_per_event": (environment.broker_cpu() - broker_before) / events * 1e6,
                        "load": os.getloadavg()[0],
                    }
                )
    return rows


def read(spark: "SparkSession", environment: Environment, query: dict[str, str]) -> "DataFrame":
    """Return the events of the accounts."""
    reader = (
        spark.read.format("cqrs").option("project", str(environment.root)).option("aggregate", "bank_account")
    )
    return reader.options(**query).load()


def spark_cpu_seconds(environment: Environment) -> float:
    """Return the CPU seconds of Spark so far: its JVM and the live Python workers."""
    total = 0.0
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # the process has just ended
            total += cpu_seconds(pid) if pid != environment.broker_pid else 0.0
    return total


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process."""
    pids = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                pids += [child, *descendants(child)]
    return pids


if __name__ == "__main__":
    main()
