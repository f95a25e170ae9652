"""Converts messages of one partition to rows, as Arrow columns. Each kind of topic has a subclass of `RowMaker`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NoReturn

from confluent_kafka import Message

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError
from cqrs_cli.core.messages.attributes import TEXT_COLUMNS
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.spark.columns import (
    COMMON_ATTRIBUTES,
    fields_as_columns,
    message_class,
    source_schema,
    wire_type,
)
from cqrs_cli.spark.field_types import FieldColumn, arrow_schema, value_array
from cqrs_cli.spark.options import SourceKind

if TYPE_CHECKING:
    import pyarrow

#: confluent-kafka's `Message` objects. `Any`, because the stubs declare partition and offset as optional.
MessageList = Sequence[Any]


class RowMaker(ABC):
    """Creates the rows of a topic of the aggregate `name`.

    `type_name`: the message type whose fields are columns; None: the column `data` replaces them. `aggregate`: needed
    only with `type_name`.
    """

    kind: SourceKind

    def __init__(
        self, name: str, topic: str, aggregate: Aggregate | None = None, type_name: str | None = None
    ) -> None:
        self._name, self._topic, self._aggregate = name, topic, aggregate
        self._cls = message_class(aggregate, self.kind, type_name)
        self._wire_type = wire_type(aggregate, self.kind, type_name) if aggregate and type_name else None
        self._fields = [] if self._cls is None else fields_as_columns(self.kind, self._cls)
        self._schema = arrow_schema(source_schema(self.kind, self._cls))

    def record_batch(self, partition: int, messages: MessageList) -> "pyarrow.RecordBatch":
        """Return the rows of some messages of a partition; raise `ContradictionError` for an unreadable record."""
        import pyarrow

        row_messages, columns = self._columns(partition, messages)
        position_columns = _position_columns(partition, row_messages)
        return pyarrow.RecordBatch.from_arrays([*position_columns, *columns], schema=self._schema)

    @abstractmethod
    def _columns(self, partition: int, messages: MessageList) -> "tuple[MessageList, list[pyarrow.Array]]":
        """Return (messages that become rows, columns of these rows without the position columns)."""

    def field_arrays(
        self, partition: int, row_messages: MessageList, values: list[Any]
    ) -> "list[pyarrow.Array]":
        """Return the field columns. `values`: the decoded `data` of each message."""
        types = self._schema.types[len(self._schema.names) - len(self._fields) :]
        return [
            self._field_array(partition, row_messages, field, arrow_type, values)
            for field, arrow_type in zip(self._fields, types, strict=True)
        ]

    def _field_array(
        self,
        partition: int,
        row_messages: MessageList,
        field: FieldColumn,
        arrow_type: Any,
        values: list[Any],
    ) -> "pyarrow.Array":
        field_values = list(map(attrgetter(field.attribute), values))
        hint = "leave option type out (in cqrs sql, query the view …_events), and take it from `data`"
        return value_array(
            field,
            field_values,
            arrow_type,
            lambda row: self._position_text(partition, row_messages[row]),
            hint,
        )

    def _position_text(self, partition: int, message: Any) -> str:
        return f"{self._topic} partition {partition} offset {message.offset()}"

    def raise_unreadable(
        self, partition: int, messages: MessageList, read: Callable[[bytes | None], object]
    ) -> NoReturn:
        """Raise the error of the first message that cannot be read."""
        for message in messages:
            try:
                read(message.value())
            except (FoldError, ValueError) as error:
                raise record_fault(
                    self._name, self.kind, self._topic, partition, message.offset(), error
                ) from error
        raise AssertionError("every message could be read at the second attempt")


def _position_columns(partition: int, messages: MessageList) -> "list[pyarrow.Array]":
    """Return the position columns: partition, offset and timestamp."""
    import numpy
    import pyarrow

    count = len(messages)
    offsets = numpy.fromiter(map(Message.offset, messages), numpy.int64, count)
    times = numpy.fromiter(map(itemgetter(1), map(Message.timestamp, messages)), numpy.int64, count)
    return [
        pyarrow.array(numpy.full(count, partition, numpy.int32)),
        pyarrow.array(offsets),
        pyarrow.array(times * 1000).view(pyarrow.timestamp("us", "UTC")),
    ]


def envelope_arrays(envelopes: Sequence[Any], *own_columns: "pyarrow.Array") -> "list[pyarrow.Array]":
    """Return the attribute columns. `own_columns`: the columns that only this topic has; they come after the first
    `COMMON_ATTRIBUTES` columns.
    """
    texts = [text_column(map(attrgetter(name), envelopes)) for name in TEXT_COLUMNS.values()]
    return [*texts[:COMMON_ATTRIBUTES], *own_columns, *texts[COMMON_ATTRIBUTES:]]


def text_column(values: Iterable[Any]) -> "pyarrow.Array":
    """Return a column of strings."""
    import pyarrow

    return pyarrow.array(list(values), pyarrow.string())
