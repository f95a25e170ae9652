"""`Recorded`: an event with its metadata, for consumers, projections and process managers."""

from datetime import datetime
from typing import Generic, TypeVar

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.fold import FoldError, decode_event
from cqrs_cli.core.messages.attributes import PropagatedAttributes
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.timestamps import parse_utc

_E = TypeVar("_E", covariant=True)


class Recorded(PropagatedAttributes, Generic[_E], frozen=True, gc=False):
    """An event with its metadata. `topic`, `partition` and `offset` locate its record; `time` is aware, in UTC.

    `id` is unique in the topic and never changes. `causation_id` is the id of the command. `traceparent` and
    `tracestate` are propagated from the command (W3C Trace Context).
    """

    event: _E
    aggregate_id: str
    version: int
    time: datetime
    id: str
    causation_id: str
    correlation_id: str
    partition: int
    offset: int
    topic: str = ""


def read_recorded_event(
    aggregate: Aggregate, value: bytes | None, topic: str, partition: int, offset: int
) -> Recorded[Event]:
    """Return the event of a record of an events topic; raises `FoldError` for any other record."""
    try:
        envelope = read_event(value)
        time = parse_utc(envelope.time)
    except ValueError as error:
        raise FoldError(str(error)) from error
    return Recorded(
        decode_event(aggregate, envelope),
        envelope.subject,
        envelope.aggregateversion,
        time,
        envelope.id,
        envelope.causationid,
        envelope.correlationid,
        partition,
        offset,
        topic,
        **envelope.propagated(),
    )
