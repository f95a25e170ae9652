"""Reads and writes event records: CloudEvents 1.0 in structured mode, one JSON document per record."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from cqrs_cli.core.messages.attributes import PropagatedAttributes
from cqrs_cli.core.messages.json import encode_json

#: The headers of every event and outcome.
HEADERS: list[tuple[str, bytes]] = [("content-type", b"application/cloudevents+json")]


class EventEnvelope(PropagatedAttributes, frozen=True, kw_only=True, gc=False):
    """An event record that was read. `data` is raw JSON, since only the class of its type can decode it."""

    id: str
    type: str
    subject: Annotated[str, Meta(min_length=1)]
    time: str
    causationid: str
    aggregateversion: int
    eventindex: int
    eventcount: int
    correlationid: str = ""
    source: str = ""
    specversion: str = "1.0"
    data: Raw = Raw(b"{}")  # null if the data are in a payload store
    datasha256: str | None = None

    def position(self) -> tuple[int, int, int]:
        """Return (partition, offset, index) from the id; partition and offset are the command record's.

        Raises `ValueError` for an id that cqrs did not write.
        """
        partition, offset, index = map(int, self.id.split("/"))
        if not (0 <= offset < 2**63 and 0 <= index < 2**31):
            raise ValueError(f"not an event id, `<partition>/<offset>/<index>`: {self.id[:80]!r}")
        return partition, offset, index


class EventFields(Struct, gc=False):
    """The attributes of an event that folding needs. The required attributes that folding does not need are declared,
    too, so that a replay rejects the same invalid records as other readers.

    Decoding takes four fifths of the time of an `EventEnvelope`.
    """

    id: str
    type: str
    subject: Annotated[str, Meta(min_length=1)]
    time: str
    causationid: str
    aggregateversion: int
    eventindex: int
    eventcount: int
    data: Raw = Raw(b"{}")


#: Writes an event of a type. The argument is a tuple: the command's offset, the event's index, the members of
#: `CommandEnvelope.shared_members`, the version, the index again, the number of the command's events, and the data.
EventWriter = Callable[[tuple[int, int, bytes, int, int, int, bytes]], bytes]


def event_writer(source: str, partition: int, wire_type: str) -> EventWriter:
    """Return the writer of the events of a type, which writes the members in the order of docs/messages.md.

    The writer is a template, created once per batch and type. It takes half the time of encoding a value; its arguments
    are JSON already.
    """
    begin = b'{"specversion":"1.0","id":"%d/' % partition
    source_and_type = b'","source":%b,"type":%b,' % (encode_json(source), encode_json(wire_type))
    counters_and_data = b',"aggregateversion":%d,"eventindex":%d,"eventcount":%d,"data":%b}'
    return (begin + b"%d/%d" + source_and_type.replace(b"%", b"%%") + b"%b" + counters_and_data).__mod__


_decoder = msgspec.json.Decoder(EventEnvelope)

#: Decodes an event's bytes as `EventFields`. Raises msgspec's errors; after an error, `read_event` gives the reason.
decode_event_fields: Callable[[bytes], EventFields] = msgspec.json.Decoder(EventFields).decode


def read_event(value: bytes | None) -> EventEnvelope:
    """Return the envelope of an event record; raises `ValueError`, or msgspec's subclass, for any other record."""
    if value is None:
        raise ValueError("a null value is not an event")
    try:
        return _decoder.decode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
