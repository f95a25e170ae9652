"""The data source `cqrs` for PySpark, and batch reads. PySpark's planner process creates it, worker processes read."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

# The base classes are PySpark's; only callers with a Spark session import this module.
from pyspark.sql.datasource import (  # noqa: TID253
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType  # noqa: TID253

from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.spark.columns import message_class, source_schema
from cqrs_cli.spark.log_extent import ExtentReader, check_first_events, offsets_of
from cqrs_cli.spark.log_partition import InputRange, read_input_partition
from cqrs_cli.spark.offset_ranges import split_ranges
from cqrs_cli.spark.options import ReadOptions, parse_options
from cqrs_cli.spark.plan import SourcePlan, plan_topic, requested_aggregate, without_traceback

if TYPE_CHECKING:
    import pyarrow


class CqrsDataSource(DataSource):
    """The data source behind `format("cqrs")`, for batches and streams, to read and to write."""

    @classmethod
    def name(cls) -> str:
        return "cqrs"

    def schema(self) -> StructType:
        with without_traceback():
            return _schema(parse_options(self.options))

    def reader(self, schema: StructType) -> "BatchReader":
        with without_traceback():
            options = parse_options(self.options, streaming=False)
            _check_schema(schema, options)
            return BatchReader(options, plan_topic(options, with_code=options.type is not None))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the stream reader. After an error, return an `InvalidStream` that raises the error later, because
        PySpark 4.3 hides an error that is raised here.
        """
        try:
            return self._stream_reader(schema)
        except CqrsError as error:
            return InvalidStream(error)

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            from cqrs_cli.spark.stream import StreamReader
        except ImportError:
            raise ConfigurationError(
                "this PySpark does not pass a stream's position to its data source",
                "install PySpark 4.2 or newer",
            ) from None
        options = parse_options(self.options, streaming=True)
        _check_schema(schema, options)
        return StreamReader(options, plan_topic(options, with_code=options.type is not None))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from cqrs_cli.spark.command_writer import batch_writer

        with without_traceback():
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from cqrs_cli.spark.command_writer import stream_writer

        with without_traceback():
            return stream_writer(self.options, schema)


class InvalidStream(DataSourceStreamReader):
    """A stream with invalid options: each method raises the error."""

    def __init__(self, error: CqrsError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, object]:
        return self._raise_error()

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, object]:
        return self._raise_error()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        return self._raise_error()

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        return self._raise_error()

    def _raise_error(self) -> NoReturn:
        with without_traceback():
            raise self._error


class BatchReader(DataSourceReader):
    """Reads the records that are committed when the read is planned, in ranges for several tasks."""

    def __init__(self, options: ReadOptions, plan: SourcePlan) -> None:
        self._options, self._plan = options, plan

    def partitions(self) -> list[InputPartition]:
        with without_traceback():
            connection, topic = self._plan.connection, self._plan.topic
            with ExtentReader(connection, topic) as reader:
                extent = reader.read_extent()
            options = self._options
            check_first_events(self._plan, options, extent)
            starts = offsets_of(options.start, "startingOffsets", connection, topic, extent)
            ends = offsets_of(options.end, "endingOffsets", connection, topic, extent)
            ranges = split_ranges(starts, ends, options.splits)
            return [InputRange(extent.topic_id, offset_range) for offset_range in ranges]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        yield from read_input_partition(self._plan, partition)


def _schema(options: ReadOptions) -> StructType:
    return source_schema(
        options.kind, message_class(requested_aggregate(options), options.kind, options.type)
    )


def _check_schema(schema: StructType, options: ReadOptions) -> None:
    """Raise `UsageError` for a schema that the user has set, because the aggregate defines the columns."""
    if [(column.name, column.dataType) for column in schema] != [
        (column.name, column.dataType) for column in _schema(options)
    ]:
        raise UsageError(
            "the aggregate defines the columns, so a schema of your own is not accepted",
            "leave .schema(…) out, and select columns",
        )
