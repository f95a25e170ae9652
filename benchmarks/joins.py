"""Rate of the data source: how fast Spark reads events as rows, and one type's fields as columns, on two cores."""

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environment import Arena, arena, cpu_seconds
from benchmarks.project import write_deposits
from benchmarks.report import report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The selections to read: all events, and the events of one type. Each row is created and dropped.
READS: dict[str, dict[str, str]] = {"events": {}, "events of one type": {"type": "Deposited"}}

#: A user's own session compiles to fast code, Java's default; the sessions of cqrs jobs compile quickly.
AS_USERS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=2_000_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=3)
    arguments = options.parse_args()
    with arena() as environment:
        write_deposits(
            environment,
            environment.topics("bank_account", arguments.partitions),
            arguments.events,
            arguments.partitions,
        )
        rows = measure(environment, arguments.events, arguments.runs)
    report("joins", rows)


def measure(environment: Arena, events: int, runs: int) -> list[dict[str, object]]:
    """Measure each selection several times, in one session, after a warm-up."""
    from cqrs_cli.jobs.engine.session import dataframes, session
    from cqrs_cli.spark import register

    rows: list[dict[str, object]] = []
    with session("local[2]", AS_USERS, environment.root / "spark.log", "joins") as context:
        spark = dataframes(context)
        register(spark)
        for what, query in READS.items():
            read(spark, environment, query).count()
            for _ in range(runs):
                began, used, broker = time.monotonic(), cpu(environment), environment.broker_cpu()
                read(spark, environment, query).write.format("noop").mode("overwrite").save()
                seconds = time.monotonic() - began
                rows.append(
                    {
                        "what": what,
                        "events_per_s": events / seconds,
                        "cpu_us_per_event": (cpu(environment) - used) / events * 1e6,
                        "broker_us_per_event": (environment.broker_cpu() - broker) / events * 1e6,
                        "load": os.getloadavg()[0],
                    }
                )
    return rows


def read(spark: "SparkSession", environment: Arena, query: dict[str, str]) -> "DataFrame":
    """Return the events of the accounts."""
    reader = (
        spark.read.format("cqrs").option("project", str(environment.root)).option("aggregate", "bank_account")
    )
    return reader.options(**query).load()


def cpu(environment: Arena) -> float:
    """Return the CPU seconds of Spark so far: its JVM and the live Python workers."""
    used = 0.0
    for pid in below(os.getpid()):
        with suppress(OSError):  # the process has just ended
            used += cpu_seconds(pid) if pid != environment.broker_pid else 0.0
    return used


def below(pid: int) -> list[int]:
    """Return all descendants of a process."""
    descendants = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                descendants += [child, *below(child)]
    return descendants


if __name__ == "__main__":
    main()
