"""The driver of `cqrs check --log`: finds every event that the code cannot read; a Spark task a partition."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.jobs.engine.partition_job import collector, finish
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.scans.check import Readable, Unreadable, read_partition
from cqrs_cli.scans.plan import ReadPlan

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

    Results = Accumulator[dict[int, Readable]]


def plan_reading(connection: Connection, topics: Topics, package: str, root: Path) -> ReadPlan:
    """All events that are committed now. Raises `ConfigurationError` if the events topic is missing."""
    count = readers.partitions(connection, topics.events)
    bounds = readers.bounds(connection, topics.events, range(count))
    return ReadPlan(connection, topics, package, root, bounds)


def read_log(context: "SparkContext", plan: ReadPlan) -> tuple[int, list[Unreadable]]:
    """The number of events, and those that cannot be read; raises the gravest error of the tasks."""
    results = collector(context, Readable)

    def job() -> None:
        numbers = context.parallelize(range(len(plan.bounds)), len(plan.bounds))
        numbers.foreach(partial(_task, plan, results))

    done = finish(context, results, job, lambda found: None, range(len(plan.bounds)))
    return sum(one.events for one in done.values()), [bad for one in done.values() for bad in one.unreadable]


def _task(plan: ReadPlan, results: "Results", partition: int) -> None:
    """The task that Spark runs on a worker."""
    plan = replace(plan, root=code_root(plan.package, plan.root))
    results.add({partition: read_partition(plan, partition)})
