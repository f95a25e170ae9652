"""A collector that accepts spans and metrics by OTLP over HTTP, on a port of this machine."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class ReceivedSpan:
    """A span, with its ids in hex."""

    def __init__(self, span: Any) -> None:
        self.name, self.kind = span.name, span.kind
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.start, self.end, self.is_error = (
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.status.code == 2,
        )
        self.attributes = _values(span.attributes)
        self.links = [
            (link.trace_id.hex(), link.span_id.hex(), _values(link.attributes)) for link in span.links
        ]


def _values(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


class Collector:
    """The received spans, and the last received metrics by name. While `answers` is not set, no request is answered."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.metrics: dict[str, Any] = {}
        self.resources: list[dict[str, Any]] = []
        self.status = 200
        self.answers = threading.Event()
        self.answers.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.answers.wait(60)
                if collector.status == 200:
                    body = gzip.decompress(body) if self.headers["Content-Encoding"] else body
                    receive = collector.receive_metrics if "metrics" in self.path else collector.receive
                    receive(body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def receive(self, body: bytes) -> None:
        for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_values(resource_spans.resource.attributes))
            for scope_spans in resource_spans.scope_spans:
                self.spans += map(ReceivedSpan, scope_spans.spans)

    def receive_metrics(self, body: bytes) -> None:
        for resource_metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope_metrics in resource_metrics.scope_metrics:
                self.metrics |= {metric.name: metric for metric in scope_metrics.metrics}

    def close(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()

    def find(self, name: str, **attributes: object) -> ReceivedSpan:
        """Return the only span with this name, and with these attributes of cqrs."""
        (span,) = (
            span
            for span in self.spans
            if span.name == name
            and all(span.attributes.get(f"cqrs.{key}") == value for key, value in attributes.items())
        )
        return span


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector until the end of the block."""
    running = Collector()
    try:
        yield running
    finally:
        running.close()
