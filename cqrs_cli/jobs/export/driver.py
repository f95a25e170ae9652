"""The driver of `cqrs export`: the events of an aggregate as files, with a Spark task for each partition."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.encrypted_events import event_marks
from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.engine.driver_address import driver_place
from cqrs_cli.jobs.engine.partition_job import collector, finish, shipped
from cqrs_cli.jobs.engine.staging import LINES, FileFormat, Target, staged
from cqrs_cli.jobs.export.columns import EventBatches, event_lines, event_schema
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import unreachable_error
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.keys_log import event_decryptor
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.segments import PartitionCounts, find_partition_counts
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.event_decryptor import EventRedactor, EventView
from cqrs_cli.registry import load
from cqrs_cli.scans.log_teller import LogProgress
from cqrs_cli.scans.plan import ReadPlan
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import JobProgress, TaskReports

if TYPE_CHECKING:
    import pyarrow
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class ExportPlan(ReadPlan):
    """A `ReadPlan`, and the other data that every task needs."""

    chains: PartitionCounts
    words: Address | None = None  # the address for the tasks' progress reports
    personal: bool = False  # True: the values of personal fields; False: redacted values


class ExportResult(NamedTuple):
    """The result of one partition, or of all: the number of events, or the error that ends the export."""

    events: int = 0
    error: CqrsError | None = None
    seconds: float = 0.0


def plan_export(
    connection: Connection, topics: Topics, package: str, root: Path, partitioner: Partitioner = "murmur2"
) -> ExportPlan:
    """Return the plan to export all events that are committed now. Raises `ConfigurationError` if there is no topic."""
    count = readers.partition_count(connection, topics.events)
    chains = find_partition_counts(connection, topics, partitioner, count)
    bounds = readers.bounds(connection, topics.events, range(count))
    return ExportPlan(connection, topics, package, root, bounds, chains)


def export_events(
    context: "SparkContext",
    plan: ExportPlan,
    target: Target,
    show: Callable[[JobProgress], None] = lambda progress: None,
) -> ExportResult:
    """Write all events; `show` is called several times a second.

    Raises the gravest error of the tasks; then the target is unchanged.
    """
    results = collector(context, ExportResult)
    began = time.monotonic()
    aggregate = load(plan.topics.aggregate, plan.package, plan.root)
    schema = event_schema(aggregate) if target.format == "parquet" else LINES
    with (
        TaskReports(driver_place(context), dict.fromkeys(plan.bounds)) as words,
        staged(context, target) as write,
    ):
        rows = partial(_rows, replace(plan, words=words.address), results, target.format)
        job = partial(write, len(plan.bounds), rows, schema)

        def look(found: dict[int, ExportResult]) -> None:
            show(words.progress({partition: one.events for partition, one in found.items()}))

        done = finish(context, results, job, look, plan.bounds)
    return ExportResult(sum(one.events for one in done.values()), seconds=time.monotonic() - began)


def _rows(
    plan: ExportPlan, results: Any, format: FileFormat, numbers: "Iterator[pyarrow.RecordBatch]"
) -> "Iterator[pyarrow.RecordBatch]":
    """The task on a worker: maps partition numbers to their events; the results go to the accumulator."""
    plan = shipped(plan)
    for batch in numbers:
        for partition in batch.column(0).to_pylist():
            events, error = 0, None
            try:
                for made in exported_rows(plan, partition, format):
                    events += made.num_rows
                    yield made
            except CqrsError as told:
                error = told
            except KafkaException as lost:
                error = unreachable_error(plan.connection, lost)
            results.add({partition: ExportResult(events, error)})


def exported_rows(plan: ExportPlan, partition: int, format: FileFormat) -> "Iterator[pyarrow.RecordBatch]":
    """Yield, in batches, the events of the keys whose current partition is `partition`; raises `CqrsError` for an
    unreadable event.
    """
    aggregate = load(plan.topics.aggregate, plan.package, plan.root)
    home = PartitionLog(plan.connection, plan.topics, partition, plan.connection.payloads)
    with closing(LogProgress(plan.words, partition)) as teller, closing(_view(plan, aggregate)) as view:
        teller.begin(plan.chains.size(home, plan.bounds))
        for log, start, end in plan.chains.segments(home, plan.bounds):
            columns = EventBatches(aggregate, log, plan.personal) if format == "parquet" else None
            for records in view.batches(log.partition, teller.follow(log.events(start, end), start, end)):
                yield event_lines(log, records) if columns is None else columns.batch(records)
        view.conclude()


def _view(plan: ExportPlan, aggregate: Aggregate) -> EventView:
    """Return the decryptor of the events' personal fields, or their masker."""
    connection, marks = plan.connection, event_marks(aggregate)
    if plan.personal:
        return event_decryptor(connection, connection.keys, plan.topics, marks)
    return EventRedactor(marks)
