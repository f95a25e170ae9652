"""Switches the export of spans and metrics on, in a process whose environment names a collector."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from cqrs_cli.core.messages.attributes import PropagatedAttributes
from cqrs_cli.observer import process_listeners
from cqrs_cli.telemetry.otel.endpoint import dropped_text, endpoint
from cqrs_cli.telemetry.otel.export_settings import check_export_settings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from cqrs_cli.telemetry.otel.listener import SpanListener
    from cqrs_cli.telemetry.otel.metrics import MetricsExporter
    from cqrs_cli.telemetry.otel.spans import Sending

Attributes = TypeVar("Attributes", bound=PropagatedAttributes)

_listener: "SpanListener | None" = None
_users = 0  # successful calls of `start_tracing` whose users have not called `stop_tracing` yet


@contextmanager
def tracing(report: Callable[[str], object]) -> Iterator[None]:
    """Export the spans of this process inside the block, and report lost spans at its end."""
    is_tracing = start_tracing()
    try:
        yield
    finally:
        if is_tracing and (lost_spans_text := stop_tracing()) is not None:
            report(lost_spans_text)


def start_tracing() -> bool:
    """Export the spans of this process until the call of `stop_tracing`. Return False, and do nothing, if the
    environment names no collector, or the extra is not installed. Raises `ConfigurationError` as
    `check_export_settings` does.
    """
    global _listener, _users
    if _listener is None:
        if endpoint() is None:
            return False
        check_export_settings()  # before the import, at which the SDK reads a variable, too
        try:
            from cqrs_cli.telemetry.otel.listener import SpanListener
        except ImportError:
            return False
        _listener = SpanListener()
        process_listeners.append(_listener.points)
    _users += 1
    return True


def stop_tracing() -> str | None:
    """End the tracing that one call of `start_tracing` began. Return a message about lost spans; None if none is lost.

    The call of the last user exports the remaining spans, for a few seconds at most.
    """
    global _listener, _users
    _users -= 1
    if _listener is None or _users:
        return None
    process_listeners.remove(_listener.points)
    dropped, _listener = _listener.exporter.close(), None
    return dropped_text() if dropped else None


def begin_sending(attributes: Attributes) -> tuple[Attributes, "Sending | None"]:
    """Begin the span of a client that sends a command with these attributes.

    Return the attributes to send, whose `traceparent` names the span, and the span. Without tracing, or for a command
    that is not sampled, return the unchanged attributes and None.
    """
    if _listener is None:
        return attributes, None
    sending = _listener.begin_sending(attributes.traceparent, attributes.tracestate)
    return (attributes, None) if sending is None else (replace(attributes, **sending.attributes), sending)


def metrics_exporter(registry: "CollectorRegistry") -> "MetricsExporter | None":
    """Start to export the metrics of a registry, and return the exporter, which the caller must close.

    Return None if the environment names no collector, or the extra is not installed. Raises `ConfigurationError` as
    `check_export_settings` does.
    """
    if endpoint("METRICS") is None:
        return None
    check_export_settings()
    try:
        from cqrs_cli.telemetry.otel.metrics import MetricsExporter
    except ImportError:
        return None
    return MetricsExporter(registry)
