"""The driver of `cqrs check --log`: finds every event that the code cannot read; a Spark task a partition."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.jobs.engine.partition_job import collector, each, finish, shipped
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.scans.check import Readable, Unreadable, read_partition
from cqrs_cli.scans.plan import ReadPlan

if TYPE_CHECKING:
    from pyspark import SparkContext


def plan_reading(connection: Connection, topics: Topics, package: str, root: Path) -> ReadPlan:
    """All events that are committed now. Raises `ConfigurationError` if the events topic is missing."""
    count = readers.partitions(connection, topics.events)
    bounds = readers.bounds(connection, topics.events, range(count))
    return ReadPlan(connection, topics, package, root, bounds)


def read_log(context: "SparkContext", plan: ReadPlan) -> tuple[int, list[Unreadable]]:
    """The number of events, and those that cannot be read; raises the gravest error of the tasks."""
    results, numbers = collector(context, Readable), range(len(plan.bounds))
    job = partial(each, context, numbers, partial(_task, plan), results)
    done = finish(context, results, job, lambda found: None, numbers)
    return sum(one.events for one in done.values()), [bad for one in done.values() for bad in one.unreadable]


def _task(plan: ReadPlan, partition: int) -> Readable:
    """The task that Spark runs on a worker."""
    return read_partition(shipped(plan), partition)
