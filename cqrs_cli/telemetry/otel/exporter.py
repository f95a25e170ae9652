"""Exports spans by OTLP over HTTP, in a thread of its own. The standard variables `OTEL_*` configure it."""

import logging
import os
import threading
from collections.abc import Iterable, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    get_current_span,
)

from cqrs_cli.core.messages.attributes import MAX_TRACESTATE
from cqrs_cli.telemetry.otel.export_settings import read_export_settings
from cqrs_cli.telemetry.otel.names import with_earlier_names
from cqrs_cli.telemetry.otel.spans import Span, TraceContext
from cqrs_cli.version import __version__

#: Seconds to wait for the export of the last spans.
CLOSE_TIMEOUT = 5.0

#: The number of spans in a request of `export_now`.
_REQUEST_SIZE = 512

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)

SCOPE = InstrumentationScope("cqrs", __version__)

# The SDK would write a traceback to stderr for each failed export. `take_dropped` counts them instead.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())


class QueuedExporter(SpanExporter):
    """A bounded queue of spans, and the thread that exports them. Spans are dropped if the queue is full, and if their
    export fails. `add` never waits.
    """

    def __init__(self) -> None:
        """Raises `ConfigurationError` as `read_export_settings` does."""
        self._otlp_exporter = OTLPSpanExporter()
        self._resource = process_resource()
        self._lock = threading.Lock()
        self._queued = self._dropped = 0
        settings = read_export_settings()
        self._queue_size = settings.queue_size
        self._processor = BatchSpanProcessor(
            self, self._queue_size, settings.schedule_delay, settings.export_size
        )

    def add(self, spans: Iterable[Span]) -> None:
        """Queue spans for the export."""
        for span in spans:
            with self._lock:
                is_full = self._queued >= self._queue_size
                self._dropped += is_full
                self._queued += not is_full
            if not is_full:
                self._processor.on_end(_sdk_span(span, self._resource))

    def export_now(self, spans: Iterable[Span]) -> bool:
        """Export spans in this thread. Return False if the collector did not take them all.

        A request has a limited number of spans, because collectors limit its size.
        """
        sdk_spans = [_sdk_span(span, self._resource) for span in spans]
        requests = (
            sdk_spans[start : start + _REQUEST_SIZE] for start in range(0, len(sdk_spans), _REQUEST_SIZE)
        )
        return all(self._otlp_exporter.export(request) is SpanExportResult.SUCCESS for request in requests)

    def count_dropped(self, count: int) -> None:
        """Count spans that are lost."""
        with self._lock:
            self._dropped += count

    def take_dropped(self) -> int:
        """Return the number of spans that were dropped since the last call."""
        with self._lock:
            count, self._dropped = self._dropped, 0
        return count

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans from the queue. The thread of the processor calls this method."""
        result = self._otlp_exporter.export(spans)
        with self._lock:
            self._queued -= len(spans)
            self._dropped += len(spans) if result is not SpanExportResult.SUCCESS else 0
        return result

    def shutdown(self) -> None:
        """Close the connection. The processor calls this method after the last export."""
        self._otlp_exporter.shutdown()  # type: ignore[no-untyped-call]

    def close(self, timeout: float = CLOSE_TIMEOUT) -> int:
        """Export the queued spans, for `timeout` seconds at most, and end the thread. Return the number of spans that
        were dropped since the last call of `take_dropped`.
        """
        thread = threading.Thread(target=self._processor.shutdown, name="last spans", daemon=True)
        thread.start()
        thread.join(timeout)
        with self._lock:
            return self._dropped + self._queued


def current_trace() -> TraceContext | None:
    """Return the trace of the span that this program has begun itself; None outside of a sampled span.

    A `tracestate` that is too long for a command is dropped: the program may have received it from a client.
    """
    context = get_current_span().get_span_context()
    if not (context.is_valid and context.trace_flags.sampled):
        return None
    tracestate = context.trace_state.to_header()
    is_kept = 0 < len(tracestate) <= MAX_TRACESTATE
    return TraceContext(context.trace_id, context.span_id, tracestate=tracestate if is_kept else None)


def process_resource() -> Resource:
    """Return the attributes of this process: its service is `cqrs`, unless a variable has another name."""
    is_named = "OTEL_SERVICE_NAME" in os.environ or f"{SERVICE_NAME}=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    return Resource.create({} if is_named else {SERVICE_NAME: "cqrs"})


def _sdk_span(span: Span, resource: Resource) -> ReadableSpan:
    """Return a span in the form that exporters take. The SDK's own constructors would choose the ids at random."""
    trace = span.trace
    return ReadableSpan(
        span.name,
        _context(trace.trace_id, span.span_id, trace.tracestate),
        _context(trace.trace_id, span.parent_id, trace.tracestate) if span.parent_id else None,
        resource,
        with_earlier_names(span.attributes),
        links=[Link(_context(link.trace_id, link.span_id), link.attributes) for link in span.links],
        kind=SpanKind[span.kind],
        status=Status(StatusCode.ERROR if span.is_error else StatusCode.UNSET),
        start_time=span.start,
        end_time=span.end,
        instrumentation_scope=SCOPE,
    )


def _context(trace_id: int, span_id: int, tracestate: str | None = None) -> SpanContext:
    state = TraceState.from_header([tracestate]) if tracestate else None
    return SpanContext(trace_id, span_id, True, _SAMPLED, state)
