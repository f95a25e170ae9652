"""The driver of `cqrs check --log`: finds the events that an aggregate's code cannot read. Each partition of the events
topic has a Spark task.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.jobs.engine.partition_job import result_accumulator, run_job, run_on_workers, with_shipped_code
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.complete_events import complete_bounds
from cqrs_cli.scans.check import ReadResult, UnreadableType, read_partition
from cqrs_cli.scans.plan import ReadPlan

if TYPE_CHECKING:
    from pyspark import SparkContext


def plan_reading(connection: Connection, topics: Topics, package: str, root: Path) -> ReadPlan:
    """Return the plan to read all events that are committed now.

    Raises `ConfigurationError` if the events topic does not exist.
    """
    count = readers.partition_count(connection, topics.events)
    bounds = complete_bounds(connection, topics, range(count))
    return ReadPlan(connection, topics, package, root, bounds)


def read_log(context: "SparkContext", plan: ReadPlan) -> tuple[int, list[UnreadableType]]:
    """Return the number of events that were read, and the event types that the code cannot read.

    Raises the gravest error of the tasks.
    """
    results, partitions = result_accumulator(context, ReadResult), range(len(plan.bounds))
    job = partial(run_on_workers, context, partitions, partial(_check_task, plan), results)
    results_by_partition = run_job(context, results, job, lambda results: None, partitions)
    return sum(result.events for result in results_by_partition.values()), [
        unreadable for result in results_by_partition.values() for unreadable in result.unreadable
    ]


def _check_task(plan: ReadPlan, partition: int) -> ReadResult:
    """Read one partition on a Spark worker."""
    return read_partition(with_shipped_code(plan), partition)
