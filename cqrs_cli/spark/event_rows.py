"""Events as rows, decoded in bulk."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import Message

from cqrs_cli.core.fold import decode_event
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.spark.rows import MessageList, RowMaker, envelope_arrays

if TYPE_CHECKING:
    import pyarrow

# Any: the decoder's type does not admit a null value, which it refuses.
_decode_envelope: Any = msgspec.json.Decoder(EventEnvelope).decode
_buffer: Any = memoryview


class EventRows(RowMaker):
    """The events: each with `data` as it was written, or only events of one present type, with its fields."""

    kind = "events"

    def _columns(self, partition: int, messages: MessageList) -> "tuple[MessageList, list[pyarrow.Array]]":
        try:
            envelopes = list(map(_decode_envelope, map(Message.value, messages)))
        except Exception:  # told again by the reader that names the reason
            self.contradiction(partition, messages, read_event)
        if any(map(attrgetter("datasha256"), envelopes)):
            self.contradiction(partition, messages, _refuse_reference)
        if self._cls is None:
            return messages, [*event_arrays(envelopes), self._data(partition, messages, envelopes)]
        events = self._events(partition, messages, envelopes)
        rows = [row for row in zip(messages, envelopes, events, strict=True) if type(row[2]) is self._cls]
        kept, envelopes, events = ([row[part] for row in rows] for part in range(3))
        return kept, [*event_arrays(envelopes), *self.field_arrays(partition, kept, events)]

    def _events(self, partition: int, messages: MessageList, envelopes: list[EventEnvelope]) -> list[Any]:
        """The events that may be of the wanted type, None in the place of others.

        One that has an upcaster may be; one that the code does not know at all could be, and is refused.
        """
        assert self._aggregate is not None
        decoders = self._aggregate.decode_event
        chosen = {
            name: decoders[name] for name in (*self._aggregate.upcasters, self._wanted) if name in decoders
        }
        others = dict.fromkeys(decoders, _nothing)
        ways = {**others, **chosen}
        try:
            return [ways[envelope.type](envelope.data) for envelope in envelopes]
        except Exception:  # told again by the one place that makes events
            self.contradiction(partition, messages, self._decode)

    def _decode(self, value: bytes | None) -> object:
        assert self._aggregate is not None
        envelope = read_event(value)
        known = envelope.type in self._aggregate.decode_event
        wanted = envelope.type == self._wanted or envelope.type in self._aggregate.upcasters
        return None if known and not wanted else decode_event(self._aggregate, envelope)

    def _data(self, partition: int, messages: MessageList, envelopes: list[EventEnvelope]) -> "pyarrow.Array":
        """The events' own parts as one column of JSON, without a Python object for each."""
        import numpy
        import pyarrow

        parts = list(map(attrgetter("data"), envelopes))
        joined = b"".join(parts)
        try:
            joined.isascii() or joined.decode()  # msgspec does not look into what it skips
        except UnicodeDecodeError:
            self.contradiction(partition, messages, _refuse_no_text)
        ends = numpy.zeros(len(parts) + 1, numpy.int32)
        numpy.cumsum(numpy.fromiter(map(len, map(_buffer, parts)), numpy.int32, len(parts)), out=ends[1:])
        return pyarrow.StringArray.from_buffers(
            len(parts), pyarrow.py_buffer(ends), pyarrow.py_buffer(joined)
        )


def event_arrays(envelopes: list[EventEnvelope]) -> "list[pyarrow.Array]":
    """The envelopes of events as columns, behind their place."""
    import pyarrow

    versions = pyarrow.array(list(map(attrgetter("aggregateversion"), envelopes)), pyarrow.int64())
    return envelope_arrays(envelopes, versions)


def _nothing(data: object) -> None:
    return None


def _refuse_reference(value: bytes | None) -> None:
    if (sum := read_event(value).datasha256) is not None:
        raise ValueError(f"its data are payload {sum[:64]}: set payload_store")


def _refuse_no_text(value: bytes | None) -> None:
    (value or b"").decode()
