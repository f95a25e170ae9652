"""Events as rows of a DataFrame, decoded in bulk."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import Message

from cqrs_cli.core.fold import decode_event
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.spark.rows import MessageList, RowMaker, envelope_arrays

if TYPE_CHECKING:
    import pyarrow

# The type is `Any`, because the decoder's type excludes None. At run time the decoder raises an error for a record
# without a value, which is correct.
_decode_envelope: Any = msgspec.json.Decoder(EventEnvelope).decode
_view_of: Any = memoryview  # a view of an event's raw `data`; its `len` is the number of bytes


class EventRows(RowMaker):
    """Rows of an events topic.

    Without the option `type`, every event is a row, with its `data` as in the log. With a type, only the events that
    have this type after upcasting are rows, with the fields of the type as columns.
    """

    kind = "events"

    def _columns(self, partition: int, messages: MessageList) -> "tuple[MessageList, list[pyarrow.Array]]":
        try:
            envelopes = list(map(_decode_envelope, map(Message.value, messages)))
        except Exception:  # reading each message again shows which one fails, and why
            self.raise_unreadable(partition, messages, read_event)
        if any(map(attrgetter("datasha256"), envelopes)):
            self.raise_unreadable(partition, messages, _raise_if_reference)
        if self._cls is None:
            return messages, [*event_arrays(envelopes), self._data(partition, messages, envelopes)]
        events = self._events(partition, messages, envelopes)
        rows = [row for row in zip(messages, envelopes, events, strict=True) if type(row[2]) is self._cls]
        row_messages, envelopes, events = ([row[part] for row in rows] for part in range(3))
        return row_messages, [*event_arrays(envelopes), *self.field_arrays(partition, row_messages, events)]

    def _events(self, partition: int, messages: MessageList, envelopes: list[EventEnvelope]) -> list[Any]:
        """Return the decoded events, but None for events that cannot have the wanted type.

        An event with an upcaster may become the wanted type. An event type that the code does not know raises
        `ContradictionError`, because it may be an old name of the wanted type.
        """
        assert self._aggregate is not None
        decoders = self._aggregate.decode_event
        wanted_decoders = {
            name: decoders[name] for name in (*self._aggregate.upcasters, self._wire_type) if name in decoders
        }
        skipping_decoders = dict.fromkeys(decoders, _skip)
        decode_by_type = {**skipping_decoders, **wanted_decoders}
        try:
            return [decode_by_type[envelope.type](envelope.data) for envelope in envelopes]
        except Exception:  # reading each message again shows which one fails, and why
            self.raise_unreadable(partition, messages, self._decode)

    def _decode(self, value: bytes | None) -> object:
        assert self._aggregate is not None
        envelope = read_event(value)
        is_known = envelope.type in self._aggregate.decode_event
        is_wanted = envelope.type == self._wire_type or envelope.type in self._aggregate.upcasters
        return None if is_known and not is_wanted else decode_event(self._aggregate, envelope)

    def _data(self, partition: int, messages: MessageList, envelopes: list[EventEnvelope]) -> "pyarrow.Array":
        """Return the events' `data` as a column of JSON texts. For speed, it creates no Python strings."""
        import numpy
        import pyarrow

        parts = list(map(attrgetter("data"), envelopes))
        joined = b"".join(parts)
        try:
            joined.isascii() or joined.decode()  # msgspec does not check the UTF-8 of raw members
        except UnicodeDecodeError:
            self.raise_unreadable(partition, messages, _raise_if_not_utf8)
        ends = numpy.zeros(len(parts) + 1, numpy.int32)
        numpy.cumsum(numpy.fromiter(map(len, map(_view_of, parts)), numpy.int32, len(parts)), out=ends[1:])
        return pyarrow.StringArray.from_buffers(
            len(parts), pyarrow.py_buffer(ends), pyarrow.py_buffer(joined)
        )


def event_arrays(envelopes: list[EventEnvelope]) -> "list[pyarrow.Array]":
    """Return the attribute columns of events, which follow the position columns."""
    import pyarrow

    versions = pyarrow.array(list(map(attrgetter("aggregateversion"), envelopes)), pyarrow.int64())
    return envelope_arrays(envelopes, versions)


def _skip(data: object) -> None:
    """Return None. This is the decoder for events that cannot have the wanted type."""


def _raise_if_reference(value: bytes | None) -> None:
    if (digest := read_event(value).datasha256) is not None:
        raise ValueError(f"its data are payload {digest[:64]}: set payload_store")


def _raise_if_not_utf8(value: bytes | None) -> None:
    (value or b"").decode()
