"""The spans of decisions, process managers and projections, as values that need no OpenTelemetry.

The id of a span is a hash of the record that it processes, and the id of its parent span is a hash of the parent's
record. So events and outcomes are equal with and without spans. A process manager can compute the span of the decision
whose event it reads, and spans that are sent again have the same ids.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from msgspec import UNSET

from cqrs_cli.core.deferral.entry import entry_key_of
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.reaction_id import ReactionId, read_reaction_id
from cqrs_cli.telemetry.otel import names

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})")


class TraceContext(NamedTuple):
    """The trace of a command: its id, and the span of the sender (0: unknown)."""

    trace_id: int
    span_id: int
    is_sampled: bool = True
    tracestate: str | None = None


class Sending(NamedTuple):
    """The span in which a client sends a command: its id, its parent in `trace`, and its start in ns."""

    trace: TraceContext
    span_id: int
    began_at: int

    @property
    def attributes(self) -> dict[str, str | None]:
        """The propagated attributes of the command, which name this span."""
        traceparent = f"00-{self.trace.trace_id:032x}-{self.span_id:016x}-01"
        return {"traceparent": traceparent, "tracestate": self.trace.tracestate}


class Link(NamedTuple):
    """A reference of a batch to a record, with the record's location as attributes."""

    trace_id: int
    span_id: int
    attributes: dict[str, Any]


class Span(NamedTuple):
    """A span. `parent_id` is 0 for a root; times are in ns since the epoch."""

    name: str
    kind: str
    trace: TraceContext
    span_id: int
    parent_id: int
    start: int
    end: int
    attributes: dict[str, Any]
    links: tuple[Link, ...] = ()
    is_error: bool = False


class HandledEvent(NamedTuple):
    """An event that a process manager or a projection has handled, and the location of its record."""

    topic: str
    partition: int
    offset: int
    key: str
    id: str
    type: str
    correlation: str


def trace_context(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """Return the trace of a message; None without a valid `traceparent`."""
    match = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    if match is None:
        return None
    return TraceContext(int(match[1], 16), int(match[2], 16), bool(int(match[3], 16) & 1), tracestate)


def derived_trace(correlation: str) -> TraceContext:
    """Return the trace of messages without `traceparent`: its id is a hash of their correlation id."""
    return TraceContext(_hash(16, correlation), 0)


def decision_id(topic: str, partition: int, offset: int) -> int:
    """Return the id of the span that decides a record of a commands topic."""
    return _hash(8, names.PROCESS, topic, partition, offset)


def decision_id_of_event(topic: str, event_id: str) -> int:
    """Return the id of the span of the decision that wrote an event. The event's id contains the command's location."""
    partition, _, rest = event_id.partition("/")
    return decision_id(
        f"{topic.removesuffix('.events')}.commands", int(partition), int(rest.partition("/")[0])
    )


def sending_id(command_id: str) -> int:
    """Return the id of the span in which a process manager sends a command."""
    return _hash(8, names.SEND, command_id)


def handling_id(handler: str, topic: str, event_id: str) -> int:
    """Return the id of the span in which a process manager or a projection handles an event."""
    return _hash(8, names.PROCESS, handler, topic, event_id)


def decision_span(
    outcome: OutcomeEnvelope, topic: str, key: str, trace: TraceContext, start: int, end: int
) -> Span:
    """Return the span of the decision with this outcome.

    The parent of a resubmitted command is the decision that deferred it. The parent of a process manager's command is
    the span that sent it. The parent of any other command is the span of the sender, from `traceparent`.
    """
    verdict, command_id = outcome.data, outcome.causationid or ""
    if isinstance(verdict.deferredfrom, str):
        deferred = entry_key_of(verdict.deferredfrom, "", verdict.partition)
        partition = verdict.partition if deferred.partition is None else deferred.partition
        parent_id = decision_id(topic, partition, deferred.offset)
    else:
        parent_id = trace.span_id if read_reaction_id(command_id) is None else sending_id(command_id)
    optional_attributes = {
        names.REASON: verdict.reason,
        names.CODE: verdict.code,
        names.DUE: verdict.due,
        names.ATTEMPT: verdict.attempt,
        names.ERROR_TYPE: verdict.reason if verdict.status == "failed" else UNSET,
    }
    attributes = {
        **names.location_attributes(topic, verdict.partition, verdict.offset, key),
        **names.message_attributes(names.PROCESS, command_id, outcome.correlationid or command_id),
        names.TYPE: outcome.type.removesuffix(f".{verdict.status}"),
        names.STATUS: verdict.status,
        names.VERSION: verdict.version,
        names.EVENTS: verdict.events,
        **{name: value for name, value in optional_attributes.items() if value is not UNSET},
    }
    span_id = decision_id(topic, verdict.partition, verdict.offset)
    is_error = verdict.status == "failed"
    name = names.span_name(names.PROCESS, topic)
    return Span(name, names.CONSUMER, trace, span_id, parent_id, start, end, attributes, (), is_error)


def batch_span(spans: Sequence[Span], topic: str, partition: int, records: int, start: int, end: int) -> Span:
    """Return the span of a batch of `records` commands: a separate trace, with links to senders of sampled commands."""
    links = tuple(_link(span) for span in spans)
    attributes = {
        **names.location_attributes(topic, partition, None, None),
        "messaging.operation.name": names.PROCESS,
        "messaging.operation.type": names.PROCESS,
        names.BATCH_SIZE: records,
    }
    trace = TraceContext(_hash(16, topic, partition, start), 0)
    span_id = _hash(8, "batch", topic, partition, start)
    name = names.span_name(names.PROCESS, topic)
    return Span(name, names.CONSUMER, trace, span_id, 0, start, end, attributes, links)


def _link(span: Span) -> Link:
    """Return the link of a batch to the sender of a command, or to the decision if the sender has no span."""
    location = {name: span.attributes[name] for name in names.LOCATION if name in span.attributes}
    return Link(span.trace.trace_id, span.parent_id or span.span_id, location)


def handling_span(
    event: HandledEvent, handler: str, attribute: str, trace: TraceContext, start: int, end: int
) -> Span:
    """Return the span of a process manager or a projection that has handled an event. `attribute`: the name of the
    attribute with the handler's name. The parent is the decision that wrote the event.
    """
    attributes = {
        **names.location_attributes(event.topic, event.partition, event.offset, event.key),
        **names.message_attributes(names.PROCESS, event.id, event.correlation),
        names.TYPE: event.type,
        attribute: handler,
    }
    name, parent_id = names.span_name(names.PROCESS, event.topic), decision_id_of_event(event.topic, event.id)
    span_id = handling_id(handler, event.topic, event.id)
    return Span(name, names.CONSUMER, trace, span_id, parent_id, start, end, attributes)


def sending_span(
    id: ReactionId, topic: str, partition: int, key: str, correlation: str, trace: TraceContext, time: int
) -> Span:
    """Return the span in which a process manager sends a command; the parent is the process manager's span."""
    attributes = {
        **names.location_attributes(topic, partition, None, key),
        **names.message_attributes(names.SEND, str(id), correlation),
        names.PROCESS_MANAGER: id.process,
    }
    name, parent_id = names.span_name(names.SEND, topic), handling_id(id.process, id.topic, id.event)
    return Span(name, names.PRODUCER, trace, sending_id(str(id)), parent_id, time, time, attributes)


def client_span(sending: Sending, id: str, topic: str, key: str, status: str, end: int) -> Span:
    """Return the span in which a client sends a command, and waits for its outcome. `status`: of the outcome, or the
    code of the error without an outcome.
    """
    attributes = {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.kafka.message.key": key,
        **names.message_attributes(names.SEND, id),
        names.STATUS: status,
    }
    name, trace = names.span_name(names.SEND, topic), sending.trace
    is_error = status.isupper()
    return Span(
        name,
        names.PRODUCER,
        trace,
        sending.span_id,
        trace.span_id,
        sending.began_at,
        end,
        attributes,
        (),
        is_error,
    )


def _hash(size: int, *parts: object) -> int:
    """Return an id of `size` bytes, which is not 0: the hash of these parts."""
    digest = blake2b("\0".join(map(str, parts)).encode(), digest_size=size).digest()
    return int.from_bytes(digest, "big") or 1
