"""Events as rows for export: either columns for the envelope and a column for each event type, or lines of JSON."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, decode_event
from cqrs_cli.core.messages.attributes import TEXT_COLUMNS
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.spark.arrow import struct_array, time_array
from cqrs_cli.spark.field_types import FieldColumn, arrow_schema, field_columns
from cqrs_cli.spark.rows import text_column
from cqrs_cli.spark.view_names import distinct_names

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

#: The names of the columns of an event's location in the log, and of all columns before the columns of the event types.
LOCATION_NAMES = ("partition", "offset")
ENVELOPE_NAMES = (*LOCATION_NAMES, "version", "time", *TEXT_COLUMNS)


class EventColumn(NamedTuple):
    """The column of one event type, an object with the event's fields; it is null in the rows of other types."""

    name: str
    cls: type[msgspec.Struct]
    fields: list[FieldColumn]


def event_columns(aggregate: Aggregate) -> list[EventColumn]:
    """Return a column for each current event type that has fields, named after the type without the aggregate's prefix.

    If another column has the same name, `_event` is appended. Case does not count, because Spark ignores it.
    """
    fields = {cls: field_columns(cls) for cls in aggregate.events.values()}
    named_classes = [
        (wire_type.removeprefix(f"{aggregate.name}."), cls)
        for wire_type, cls in aggregate.events.items()
        if fields[cls]  # Parquet has no objects without fields
    ]
    names = distinct_names([name for name, _ in named_classes], ENVELOPE_NAMES, "{}_event")
    return [EventColumn(name, cls, fields[cls]) for name, (_, cls) in zip(names, named_classes, strict=True)]


def event_schema(aggregate: Aggregate) -> "StructType":
    """Return the schema of events in Parquet."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

    envelope_fields = [
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("version", LongType()),
        StructField("time", TimestampType()),
        *(StructField(name, StringType()) for name in TEXT_COLUMNS),
    ]
    event_fields = [
        StructField(column.name, StructType([StructField(field.name, field.type) for field in column.fields]))
        for column in event_columns(aggregate)
    ]
    return StructType([*envelope_fields, *event_fields])


class EventBatches:
    """Converts the events of one partition to batches of columns."""

    def __init__(self, aggregate: Aggregate, log: PartitionLog, with_personal_values: bool = False) -> None:
        """`with_personal_values`: True for the values of personal fields, False for redacted values."""
        self._aggregate, self._log, self._with_personal_values = aggregate, log, with_personal_values
        self._columns = event_columns(aggregate)
        self._schema = arrow_schema(event_schema(aggregate))

    def batch(self, records: list[Record]) -> "pyarrow.RecordBatch":
        """Return these events as columns; upcasters convert events of old types.

        Raises `ContradictionError` for an event that the code cannot read, `CqrsError` for a value that does not fit
        its column; both errors name the record.
        """
        import pyarrow

        pairs = [self._read(record) for record in records]
        envelopes, events = [envelope for envelope, _ in pairs], [event for _, event in pairs]
        arrays = [
            pyarrow.array([self._log.partition] * len(records), pyarrow.int32()),
            pyarrow.array([record.offset for record in records], pyarrow.int64()),
            pyarrow.array([envelope.aggregateversion for envelope in envelopes], pyarrow.int64()),
            time_array(envelope.time for envelope in envelopes),
            *(text_column(map(attrgetter(name), envelopes)) for name in TEXT_COLUMNS.values()),
        ]
        for column, arrow_type in zip(self._columns, self._schema.types[len(ENVELOPE_NAMES) :], strict=True):
            own_events = [event if type(event) is column.cls else None for event in events]
            arrays.append(
                struct_array(
                    column.fields, own_events, arrow_type, lambda number: self._location(records[number])
                )
            )
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _read(self, record: Record) -> tuple[EventEnvelope, Any]:
        try:
            envelope = read_event(record.value)
            event = decode_event(self._aggregate, envelope)
            return envelope, event if self._with_personal_values else self._aggregate.personal.redact(event)
        except (FoldError, ValueError) as error:
            raise self._log.fault("events", record.offset, error) from error

    def _location(self, record: Record) -> str:
        return f"{self._log.log_name('events')} offset {record.offset}"


def event_lines(log: PartitionLog, records: list[Record]) -> "pyarrow.RecordBatch":
    """Return the JSON of the events as it was written, each event as one line.

    Raises `ContradictionError` for a record that is not an event.
    """
    import pyarrow

    lines = []
    for record in records:
        try:
            read_event(record.value)
            text = (record.value or b"").decode()
        except ValueError as error:
            raise log.fault("events", record.offset, error) from error
        if "\n" in text or "\r" in text:
            text = msgspec.json.format(text, indent=-1)
        lines.append(text)
    return pyarrow.RecordBatch.from_arrays([pyarrow.array(lines, pyarrow.string())], ["line"])
