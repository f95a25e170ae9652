"""A collector of OpenTelemetry that takes spans over HTTP, and drops them."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def collector() -> Iterator[None]:
    """Inside the block, programs export spans to a collector of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ[_ENDPOINT] = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield
    finally:
        del os.environ[_ENDPOINT]
        server.shutdown()
        server.server_close()
