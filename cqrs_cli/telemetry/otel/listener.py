"""The listener of `cqrs_cli.observer` that makes spans of the batches of this process."""

import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.reaction_id import ReactionId
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import milliseconds_of
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.observer import Listener, reached
from cqrs_cli.telemetry.otel import names
from cqrs_cli.telemetry.otel.endpoint import dropped_text
from cqrs_cli.telemetry.otel.exporter import QueuedExporter, current_trace
from cqrs_cli.telemetry.otel.spans import (
    HandledEvent,
    Sending,
    Span,
    TraceContext,
    batch_span,
    client_span,
    decision_span,
    handling_span,
    sending_span,
    trace_context,
)

#: Searched in the joined outcomes of a piece: one search takes half the time of a search in each outcome.
_TRACE = b'"traceparent":"'
_SAMPLED = re.compile(_TRACE + rb'[0-9a-f-]{54}[13579bdf]"')


class SentRecord(Protocol):
    """A record that a process manager sends."""

    @property
    def topic(self) -> str: ...

    @property
    def key(self) -> bytes: ...

    @property
    def partition(self) -> int: ...


#: An event, and the records that a process manager sends for it.
Reaction = tuple[Recorded[Any], Sequence[SentRecord]]


class _Batch(threading.local):
    """The batch of a thread: its beginning, its partition, and its sampled commands."""

    def __init__(self) -> None:
        self.began_at = 0  # ns since the epoch
        self.topic, self.partition = "", 0
        self.sampled: list[tuple[Record, bytes]] = []  # command record, its outcome as JSON


class SpanListener:
    """Makes the spans of each batch after its commit. A piece without a `traceparent` costs one search."""

    def __init__(self) -> None:
        self.exporter = QueuedExporter()
        self._batch = _Batch()
        self.points: Listener = {
            "decide.before": self._begin,
            "batch.piece": self._add_piece,
            "batch.after": self._commit,
            "project.after": self._export_projected,
            "send.after": self._export_sent,
        }

    def _begin(self) -> None:
        self._batch.began_at = time.time_ns()
        self._batch.sampled = []

    def _add_piece(
        self,
        source: tuple[str, int],
        records: Sequence[Record],
        start: int,
        outcomes: Sequence[tuple[bytes, bytes | None, int]],
    ) -> None:
        """Store the sampled commands of a piece, whose commands are `records` from the index `start` on."""
        batch = self._batch
        batch.topic, batch.partition = source
        if _TRACE not in b"".join([outcome for outcome, _, _ in outcomes]):
            return
        for number, (outcome, _, _) in enumerate(outcomes, start):
            if _SAMPLED.search(outcome):
                batch.sampled.append((records[number], outcome))

    def _commit(
        self, records: Sequence[Record], process: str = "", reactions: Sequence[Reaction] = (), **_: object
    ) -> None:
        """Export the spans of a committed batch: of its decisions, or of the reactions of a process manager."""
        batch, now = self._batch, time.time_ns()
        if batch.sampled:
            self._export(_decision_spans(batch, len(records), now))
            batch.sampled = []
        elif reactions:
            self._export(_reaction_spans(process, reactions, batch.began_at, now))

    def _export_projected(self, projection: str, events: Sequence[Recorded[Any]], began_at: int) -> None:
        """Export the spans of events whose rows are committed."""
        now = time.time_ns()
        self._export(
            handling_span(_handled_event(event), projection, names.PROJECTION, trace, began_at, now)
            for event in events
            if (trace := _sampled_trace(event)) is not None
        )

    def begin_sending(self, traceparent: str | None, tracestate: str | None) -> Sending | None:
        """Return the span of a command that a client is about to send; None if the command is not sampled.

        Without `traceparent`, the parent is the span that this program has begun itself.
        """
        trace = trace_context(traceparent, tracestate) if traceparent else current_trace()
        if trace is None or not trace.is_sampled:
            return None
        return Sending(trace, secrets.randbits(64) or 1, time.time_ns())

    def _export_sent(self, sending: Sending, id: str, topic: str, key: str, status: str) -> None:
        """Export the span of a client that has sent a command."""
        self._export([client_span(sending, id, topic, key, status, time.time_ns())])

    def _export(self, spans: Iterable[Span]) -> None:
        """Queue the spans. An error loses these spans, but never fails the batch."""
        try:
            self.exporter.add(spans)
        except Exception:
            self.exporter.count_dropped(1)
        if dropped := self.exporter.take_dropped():
            reached("spans.dropped", count=dropped)
            reached("message", text=dropped_text())


def _decision_spans(batch: _Batch, size: int, now: int) -> Iterator[Span]:
    """Yield the spans of the sampled commands of a batch of this size, and the span of the batch."""
    spans = []
    for record, value in batch.sampled:
        outcome = read_outcome(value)
        if (trace := trace_context(outcome.traceparent, outcome.tracestate)) is not None:
            key = (record.key or b"").decode()
            spans.append(decision_span(outcome, batch.topic, key, trace, batch.began_at, now))
    yield from spans
    if spans:
        yield batch_span(spans, batch.topic, batch.partition, size, batch.began_at, now)


def _reaction_spans(process: str, reactions: Sequence[Reaction], began_at: int, now: int) -> Iterator[Span]:
    """Yield the spans of a process manager's reactions to sampled events, and of the commands that it sent."""
    for event, commands in reactions:
        if (trace := _sampled_trace(event)) is None:
            continue
        yield handling_span(_handled_event(event), process, names.PROCESS_MANAGER, trace, began_at, now)
        time = milliseconds_of(event.time)
        for number, command in enumerate(commands):
            id = ReactionId(process, event.topic, event.id, time, number)
            key, correlation = command.key.decode(), event.correlation_id
            yield sending_span(id, command.topic, command.partition, key, correlation, trace, now)


def _sampled_trace(event: Recorded[Any]) -> TraceContext | None:
    """Return the trace of an event; None if the event is not sampled."""
    trace = trace_context(event.traceparent, event.tracestate) if event.traceparent else None
    return trace if trace is not None and trace.is_sampled else None


def _handled_event(event: Recorded[Any]) -> HandledEvent:
    type_name, correlation = type(event.event).__name__, event.correlation_id
    return HandledEvent(
        event.topic, event.partition, event.offset, event.aggregate_id, event.id, type_name, correlation
    )
