"""The driver of `cqrs export`: the events of an aggregate as files, with a Spark task for each partition."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.client.aggregate_logs import find_events
from cqrs_cli.client.codecs import decrypting_codec, redacting_codec
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.engine.driver_address import driver_address
from cqrs_cli.jobs.engine.partition_job import result_accumulator, run_job, with_shipped_code
from cqrs_cli.jobs.engine.staging import LINES, FileFormat, Target, staged_writer
from cqrs_cli.jobs.export.columns import EventBatches, event_lines, event_schema
from cqrs_cli.kafka.clients import unreachable_error
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.registry import load
from cqrs_cli.scans.log_progress import LogProgress
from cqrs_cli.scans.plan import KeyScanPlan
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import JobProgress, TaskReports

if TYPE_CHECKING:
    import pyarrow
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class ExportPlan(KeyScanPlan):
    """The plan of an export, which every task gets."""

    report_address: Address | None = None  # the address to which tasks send progress reports
    with_personal_values: bool = False  # True: the values of personal fields; False: redacted values


class ExportResult(NamedTuple):
    """The result of one partition, or of all partitions."""

    events: int = 0  # number of exported events
    error: CqrsError | None = None  # the error that ends the export
    seconds: float = 0.0  # duration of the whole export; 0 for one partition


def plan_export(
    connection: Connection, topics: Topics, package: str, root: Path, partitioner: Partitioner = "murmur2"
) -> ExportPlan:
    """Return the plan to export all events that are committed now.

    Raises `ConfigurationError` if the events topic does not exist.
    """
    key_space, bounds = find_events(connection, topics, partitioner)
    return ExportPlan(connection, topics, package, root, bounds, key_space)


def export_events(
    context: "SparkContext",
    plan: ExportPlan,
    target: Target,
    show: Callable[[JobProgress], None] = lambda progress: None,
) -> ExportResult:
    """Write all events to the target; `show` gets the progress several times a second.

    Raises the gravest error of the tasks; after an error the target is unchanged.
    """
    results = result_accumulator(context, ExportResult)
    started_at = time.monotonic()
    aggregate = load(plan.topics.aggregate, plan.package, plan.root)
    schema = event_schema(aggregate) if target.format == "parquet" else LINES
    with (
        TaskReports(driver_address(context), dict.fromkeys(plan.bounds)) as reports,
        staged_writer(context, target) as write,
    ):
        rows = partial(_export_task, replace(plan, report_address=reports.address), results, target.format)
        job = partial(write, len(plan.bounds), rows, schema)

        def show_progress(results: dict[int, ExportResult]) -> None:
            show(reports.progress({partition: result.events for partition, result in results.items()}))

        results_by_partition = run_job(context, results, job, show_progress, plan.bounds)
    return ExportResult(
        sum(result.events for result in results_by_partition.values()), seconds=time.monotonic() - started_at
    )


def _export_task(
    plan: ExportPlan, results: Any, format: FileFormat, partition_batches: "Iterator[pyarrow.RecordBatch]"
) -> "Iterator[pyarrow.RecordBatch]":
    """Map partition numbers to their events on a Spark worker, and add each partition's result to the accumulator
    `results`.
    """
    plan = with_shipped_code(plan)
    for batch in partition_batches:
        for partition in batch.column(0).to_pylist():
            events, error = 0, None
            try:
                for event_batch in exported_rows(plan, partition, format):
                    events += event_batch.num_rows
                    yield event_batch
            except CqrsError as export_error:
                error = export_error
            except KafkaException as kafka_error:
                error = unreachable_error(plan.connection, kafka_error)
            results.add({partition: ExportResult(events, error)})


def exported_rows(plan: ExportPlan, partition: int, format: FileFormat) -> "Iterator[pyarrow.RecordBatch]":
    """Yield batches of the events whose key is now in `partition`; after a repartitioning, they may be in an ancestor
    of this partition.

    Raises `CqrsError` for an unreadable event.
    """
    aggregate = load(plan.topics.aggregate, plan.package, plan.root)
    with (
        closing(LogProgress(plan.report_address, partition)) as progress,
        closing(_open_codec(plan, aggregate)) as codec,
    ):
        segments = plan.segments(partition, codec)
        progress.start(sum(segment.end - segment.start for segment in segments))
        for log, start, end in segments:
            columns = EventBatches(aggregate, log, plan.with_personal_values) if format == "parquet" else None
            for records in progress.track(log.events(start, end), start, end):
                yield event_lines(log, records) if columns is None else columns.batch(records)
        codec.check_no_lost_keys()


def _open_codec(plan: ExportPlan, aggregate: Aggregate) -> RecordCodec:
    """Return the codec that decrypts the events' personal fields, or redacts them, as the plan requests."""
    connection = plan.connection
    if plan.with_personal_values:
        return decrypting_codec(connection, plan.topics, aggregate)
    return redacting_codec(connection, aggregate)
