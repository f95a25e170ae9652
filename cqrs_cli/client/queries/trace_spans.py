"""Builds spans from past messages for `cqrs trace -o otlp`. The log has all of their data except the durations."""

from collections.abc import Iterable, Iterator, Mapping

from cqrs_cli.client.queries.messages import LinkedMessage
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.reaction_id import read_reaction_id
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.telemetry.otel import names
from cqrs_cli.telemetry.otel.spans import (
    HandledEvent,
    Span,
    decision_span,
    derived_trace,
    handling_span,
    sending_span,
    trace_context,
)


def trace_spans(messages: Iterable[LinkedMessage], topics: Mapping[str, Topics]) -> list[Span]:
    """Return the spans of decisions, and of the process managers that sent the decided commands. `topics`: by aggregate
    name.

    The spans have the same ids as the spans that owners export. A span begins and ends at the timestamp of its record.
    If the outcome has no `traceparent`, the id of the trace is derived from the correlation id.
    """
    sorted_messages = sorted(messages, key=lambda message: (message.record.timestamp, message.record.offset))
    events = {
        (topics[message.aggregate].events, message.id): message
        for message in sorted_messages
        if message.kind == "events"
    }
    spans: dict[tuple[int, int], Span] = {}  # (trace id, span id) → span
    for message in sorted_messages:
        if message.kind == "outcomes" and message.causation:
            for span in _spans_of(
                message, read_outcome(message.record.value), topics[message.aggregate], events
            ):
                spans.setdefault((span.trace.trace_id, span.span_id), span)
    return list(spans.values())


def _spans_of(
    message: LinkedMessage,
    outcome: OutcomeEnvelope,
    topics: Topics,
    events: Mapping[tuple[str, str], LinkedMessage],
) -> Iterator[Span]:
    """Yield the span of a decision. Before it, yield the spans of the process manager that sent the command, if one
    did.
    """
    trace = trace_context(outcome.traceparent, outcome.tracestate) or derived_trace(message.correlation)
    time, partition = message.record.timestamp * 1_000_000, outcome.data.partition
    if (reaction := read_reaction_id(message.causation)) is not None:
        if (cause := events.get((reaction.topic, reaction.event))) is not None:
            event, event_time = _handled_event(reaction.topic, cause), cause.record.timestamp * 1_000_000
            yield handling_span(event, reaction.process, names.PROCESS_MANAGER, trace, event_time, event_time)
        key, correlation = message.subject, message.correlation
        yield sending_span(reaction, topics.commands, partition, key, correlation, trace, time)
    yield decision_span(outcome, topics.commands, message.subject, trace, time, time)


def _handled_event(topic: str, message: LinkedMessage) -> HandledEvent:
    event = read_event(message.record.value)
    type_name = event.type.rpartition(".")[2]
    return HandledEvent(
        topic,
        message.partition,
        message.record.offset,
        event.subject,
        event.id,
        type_name,
        message.correlation,
    )
