"""Events on the wire: CloudEvents 1.0, structured mode, one JSON document a record."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from cqrs_cli.core.messages.attributes import HandedOn
from cqrs_cli.core.messages.json import encode_json

#: The headers of every event and outcome.
HEADERS: list[tuple[str, bytes]] = [("content-type", b"application/cloudevents+json")]


class EventEnvelope(HandedOn, frozen=True, kw_only=True, gc=False):
    """An event as it is read; `data` stays raw until its type says how to decode it."""

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
    data: Raw = Raw(b"{}")  # null where they are in a payload store
    datasha256: str | None = None

    def position(self) -> tuple[int, int, int]:
        """(partition, offset, index) of the command record that caused it; raises `ValueError` for a foreign id."""
        partition, offset, index = map(int, self.id.split("/"))
        if not (0 <= offset < 2**63 and 0 <= index < 2**31):
            raise ValueError(f"not a place in a topic: {self.id[:80]!r}")
        return partition, offset, index


class Fact(Struct, gc=False):
    """The part of an event that folding needs, and with it whatever makes a record an event: a replay refuses what
    `EventEnvelope` refuses. To read it takes four fifths of the time of a whole envelope.
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


#: Writes an event of a type, from: the command's offset, the event's index, what events and outcome of the command have
#: alike, version, index again, number of the command's events, data.
EventWriter = Callable[[tuple[int, int, bytes, int, int, int, bytes]], bytes]


def event_writer(source: str, partition: int, kind: str) -> EventWriter:
    """The one writer of events: the members of the contract, in its order.

    It is a template, made once a batch for each type, which takes half the time of encoding a value. What is filled in
    is JSON already.
    """
    begin = b'{"specversion":"1.0","id":"%d/' % partition
    of_type = b'","source":%b,"type":%b,' % (encode_json(source), encode_json(kind))
    numbers = b',"aggregateversion":%d,"eventindex":%d,"eventcount":%d,"data":%b}'
    return (begin + b"%d/%d" + of_type.replace(b"%", b"%%") + b"%b" + numbers).__mod__


_decoder = msgspec.json.Decoder(EventEnvelope)

#: The `Fact` of an event's bytes; raises what msgspec raises, whose reason `read_event` says.
decode_fact: Callable[[bytes], Fact] = msgspec.json.Decoder(Fact).decode


def read_event(value: bytes | None) -> EventEnvelope:
    """The envelope of an events record; raises `ValueError` (msgspec's errors are) for any other record."""
    if value is None:
        raise ValueError("a null value is not an event")
    try:
        return _decoder.decode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
