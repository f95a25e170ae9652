"""The export over real HTTP: to a collector that answers, that is away, and that hangs."""

import time
from typing import Any

import pytest

from cqrs_cli.observer import message_listener, observing, process_listeners, reached
from cqrs_cli.telemetry.otel import names, tracing
from cqrs_cli.telemetry.otel.endpoint import dropped_text
from cqrs_cli.telemetry.otel.exporter import QueuedExporter
from cqrs_cli.telemetry.otel.listener import SpanListener
from cqrs_cli.telemetry.otel.spans import Link, Span, TraceContext
from tests.support.collector import Collector
from tests.support.waiting import eventually

TRACE = TraceContext(7, 8, tracestate="vendor=1")


def span(number: int = 1, **fields: Any) -> Span:
    attributes = names.location_attributes("t", 3, number, "k") | names.message_attributes(
        names.PROCESS, "m", "c"
    )
    return Span("process t", names.CONSUMER, TRACE, number, 8, 10, 20, attributes)._replace(**fields)


def test_spans_reach_the_collector(collector: Collector) -> None:
    exporter = QueuedExporter()
    exporter.add([span(links=(Link(5, 6, {"a": 1}),), is_error=True)])
    assert exporter.close() == 0
    (received,) = collector.spans
    assert (received.trace, received.id, received.parent) == (f"{7:032x}", f"{1:016x}", f"{8:016x}")
    assert (received.start, received.end, received.is_error) == (10, 20, True)
    assert received.links == [(f"{5:032x}", f"{6:016x}", {"a": 1})]
    assert received.attributes["messaging.kafka.offset"] == 1
    assert collector.resources[0]["service.name"] == "cqrs"


def test_variable_names_the_service(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    QueuedExporter().export_now([span()])
    assert collector.resources[0]["service.name"] == "shop"


def test_spans_are_sent_in_several_requests(collector: Collector) -> None:
    assert QueuedExporter().export_now(span(number) for number in range(1, 1026))
    assert (len(collector.spans), len(collector.resources)) == (1025, 3)


def test_earlier_names_are_opt_in(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, messaging/dup")
    QueuedExporter().export_now([span()])
    (received,) = collector.spans
    assert received.attributes["messaging.operation"] == received.attributes["messaging.operation.type"]
    assert received.attributes["messaging.kafka.message.offset"] == 1


def test_full_queue_drops_spans(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """`add` does not wait for a collector that hangs, and the end waits for a limited time."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    collector.answers.clear()
    exporter = QueuedExporter()
    started_at = time.monotonic()
    exporter.add(span(number) for number in range(1, 31))
    assert exporter.close(0.1) == 30
    assert time.monotonic() - started_at < 2


def test_failed_exports_are_counted(collector: Collector) -> None:
    collector.status = 400
    exporter = QueuedExporter()
    exporter.add([span(1), span(2)])
    assert exporter.close() == 2
    assert exporter.take_dropped() == 2


def test_dropped_spans_become_a_metric(collector: Collector) -> None:
    collector.status = 400
    listener = SpanListener()
    listener.exporter.add([span()])
    counts: list[int] = []
    texts: list[str] = []

    def add_count(count: int) -> None:
        counts.append(count)

    def are_counted() -> bool:
        with observing(listener.points, {"spans.dropped": add_count, **message_listener(texts.append)}):
            reached("project.after", projection="p", events=[], began_at=0)
        return bool(counts)

    eventually(are_counted, 20)
    assert counts == [1]
    assert texts == [f"spans are dropped, because the collector does not take them: {collector.endpoint}"]


@pytest.mark.parametrize(
    "variable",
    [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}],
)
def test_variables_switch_spans_off(
    collector: Collector, variable: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    listeners = list(process_listeners)
    texts: list[str] = []
    with tracing.tracing(texts.append):
        assert process_listeners == listeners
    assert texts == []


def test_messages_contain_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://me:secret@collector:4318/x@y")
    assert dropped_text().endswith(": https://collector:4318/x@y")
