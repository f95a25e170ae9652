"""The writers of the data source `cqrs`: each row of a batch or stream becomes a command.

A repeated task sends the same commands with the same ids. Owners recognise them as duplicates within the dedup window.
So a writer refuses a batch if its first attempt was too long ago.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (  # noqa: TID253 - the base classes
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from cqrs_cli.client.producer import BULK_BATCH_BYTES, BULK_DELIVERY_TIMEOUT, CommandProducer
from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import UsageError
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.settings.durations import show_duration
from cqrs_cli.spark.bad_rows import BadRows
from cqrs_cli.spark.command_columns import check_columns
from cqrs_cli.spark.plan import (
    SourcePlan,
    plan_topic,
    project_settings,
    requested_aggregate,
    without_traceback,
)
from cqrs_cli.spark.row_commands import RowCommands
from cqrs_cli.spark.stream_batch import StreamBatch, read_latest_batch
from cqrs_cli.spark.write_options import WriteOptions, parse_write_options
from cqrs_cli.storage.folder import open_folder
from cqrs_cli.system.memory import without_garbage_collection

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

#: The local property of a task with the number of the stream's batch; None outside of a stream.
_BATCH_NUMBER = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The data that the tasks of a write need. Picklable."""

    topic: SourcePlan  # the commands topic
    partitioner: Partitioner
    dedup_window: timedelta
    margin: timedelta  # a batch is refused after the dedup window less this margin
    numbers_rows: bool  # as in `WriteOptions`
    bad_records_path: str | None  # as in `WriteOptions`


def plan_write(options: WriteOptions, schema: "StructType") -> SinkPlan:
    """Return the plan of a write; raise `UsageError` for wrong columns.

    Raises `ConfigurationError` for a malformed URI of a folder.
    """
    check_columns(schema, requested_aggregate(options), options)
    settings = project_settings(options)
    if options.bad_records_path is not None:
        open_folder(options.bad_records_path, Path.cwd())
    return SinkPlan(
        plan_topic(options, with_code=True),
        settings.partitioner,
        settings.dedup_window,
        settings.max_clock_skew + BULK_DELIVERY_TIMEOUT,
        options.numbers_rows,
        options.bad_records_path,
    )


class CommandWriter:
    """Sends the rows of each task. `batch`: the batch of a stream; for a DataFrame, the whole write is one batch."""

    def __init__(self, plan: SinkPlan, batch: StreamBatch) -> None:
        self._plan, self._batch = plan, batch

    def write(self, iterator: "Iterator[pyarrow.RecordBatch]") -> WriterCommitMessage:
        from pyspark import TaskContext

        with without_traceback(), without_garbage_collection():
            context = TaskContext.get()
            assert context is not None
            self._check_batch(context.getLocalProperty(_BATCH_NUMBER))
            self._send(iterator, context.partitionId())
        return WriterCommitMessage()

    def _check_batch(self, running: str | None) -> None:
        """Raise `UsageError` if the task does not belong to `batch`. `running`: the batch number of the task's stream;
        None outside of a stream.
        """
        raise NotImplementedError

    def _send(self, batches: "Iterator[pyarrow.RecordBatch]", partition: int) -> None:
        plan, batch = self._plan, self._batch
        aggregate = plan.topic.load_aggregate()
        assert aggregate is not None
        task = f"{batch.query}/{batch.number}/{partition}"
        id_prefix = f"{task}/" if plan.numbers_rows else None
        location = plan.bad_records_path
        bad_rows = None if location is None else BadRows(location, task.replace("/", "-"))
        rows = RowCommands(aggregate, plan.topic.type, id_prefix, bad_rows)
        with CommandProducer(plan.topic.connection, plan.partitioner, bulk=True, reports=False) as producer:
            send_rows(producer, plan.topic.topic, rows, self._checked(batches))
        if bad_rows is not None:
            bad_rows.save()

    def _checked(self, batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        for record_batch in batches:
            self._check_age()
            yield record_batch

    def _check_age(self) -> None:
        """Raise `UsageError` if owners may have forgotten ids of the batch when they decide the next command."""
        plan, first_try = self._plan, self._batch.first_try
        age = timedelta(milliseconds=time.time_ns() // 1_000_000 - first_try)
        if age > plan.dedup_window - plan.margin:
            hours = (age + plan.margin) // timedelta(hours=1) + 1
            raise UsageError(
                f"batch {self._batch.number} was first tried at {rfc3339(first_try)}, but owners remember ids for "
                f"{show_duration(plan.dedup_window)} only: commands of the batch could be decided twice",
                f"set dedup_window to {hours}h, restart cqrs run, then this write",
            )


def send_rows(
    producer: CommandProducer, topic: str, rows: RowCommands, batches: "Iterable[pyarrow.RecordBatch]"
) -> None:
    """Send the commands of all rows, and wait until they are delivered.

    A row is invalid if its command is too large for the topic. This is only known for commands of at least
    `BULK_BATCH_BYTES`, which the producer sends alone. Any other failure is an error of the write.
    """
    for record_batch in batches:
        for command in rows.commands_of(record_batch):
            on_failure = rows.failure_handler() if len(command.value) >= BULK_BATCH_BYTES else None
            producer.send(topic, command.subject.encode(), command.value, on_failure=on_failure)
        rows.reject_failures()
    producer.flush()
    rows.reject_failures()


class BatchWriter(CommandWriter, DataSourceArrowWriter):
    """Writes the rows of a DataFrame."""

    def _check_batch(self, running: str | None) -> None:
        if running is not None and self._plan.numbers_rows:
            raise UsageError(
                'option ids: with "rows" a batch that foreachBatch repeats would have new ids',
                'write .writeStream.format("cqrs"), or add a column id',
            )


class StreamWriter(CommandWriter, DataSourceStreamArrowWriter):
    """Writes the rows of one batch of a stream; Spark creates a writer for each batch."""

    def _check_batch(self, running: str | None) -> None:
        if running != str(self._batch.number):
            raise UsageError(
                f"the checkpoint has batch {self._batch.number}, but the stream writes batch {running}",
                "give each stream a checkpointLocation of its own",
            )


def batch_writer(options: Mapping[str, str], schema: "StructType", overwrite: bool) -> BatchWriter:
    """Return the writer of a DataFrame. The write is one batch with a new query id."""
    parsed_options = parse_write_options(options)
    if overwrite:
        raise UsageError("mode overwrite: commands are only added", 'write .mode("append")')
    plan = plan_write(parsed_options, schema)
    return BatchWriter(plan, StreamBatch(uuid7(), 0, time.time_ns() // 1_000_000))


def stream_writer(options: Mapping[str, str], schema: "StructType") -> StreamWriter:
    """Return the writer of the latest batch in the stream's checkpoint."""
    parsed_options = parse_write_options(options)
    plan = plan_write(parsed_options, schema)
    return StreamWriter(plan, read_latest_batch(parsed_options.checkpoint, parsed_options.numbers_rows))
