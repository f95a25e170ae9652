"""The HTTP endpoint of a run or a projection, for Prometheus and for service managers.

`/metrics` has the metrics. `/healthz` fails only if a restart of the driver helps. `/readyz` succeeds if every
partition has an active owner. `/readyz?standby` also succeeds in a standby run, for service managers that restart
several runs one after the other.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.telemetry.otel.tracing import metrics_exporter

#: Seconds without a heartbeat of the driver until it counts as stuck. A driver waits for a broker, or for the
#: resubmission of a task, for a shorter time.
ALIVE_TIMEOUT = 180.0

#: Seconds after which a snapshot of the run is out of date.
FRESH_TIMEOUT = 30.0


class JobSnapshot(Protocol):
    """A snapshot of a job, polled at the time `polled_at` (monotonic seconds)."""

    @property
    def polled_at(self) -> float: ...


_Snapshot = TypeVar("_Snapshot", bound=JobSnapshot)


class SnapshotCollector(Protocol[_Snapshot]):
    """A Prometheus collector that reports the last snapshot of a job."""

    snapshot: _Snapshot | None
    polled_systems: str  # the systems that are polled for a snapshot, such as "Kafka"; for messages

    def waiting_by_name(self) -> dict[str, str]:
        """Return partition name → reason, for the partitions without progress at present."""

    def is_standby(self) -> bool:
        """True if the job only waits for the active run to end."""

    def collect(self) -> Iterator[Metric]: ...


class Endpoint(Generic[_Snapshot]):
    """The HTTP server for one job. It serves in its own threads until it is closed."""

    def __init__(
        self,
        metrics: SnapshotCollector[_Snapshot],
        host: str,
        port: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start serving; port 0 selects a free port. Raises `ConfigurationError` if the address cannot be used."""
        self._clock = clock
        self._metrics = metrics
        self._last_heartbeat = clock()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(metrics)
        handler = _make_handler(registry, self.health, self.readiness)
        try:
            self._server = _server(host, port, handler)
        except OSError as error:
            raise ConfigurationError(
                f"{host} port {port} cannot be used for metrics: {error}",
                "choose another address: --metrics-address",
            ) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        self._exporter = metrics_exporter(registry)

    def update(self, snapshot: _Snapshot) -> None:
        """Serve this snapshot from now on."""
        self._metrics.snapshot = snapshot
        self.record_heartbeat()

    def forget(self) -> None:
        """Drop the snapshot, so that `/readyz` fails until the next update."""
        self._metrics.snapshot = None

    def record_heartbeat(self) -> None:
        """Record that the driver is alive now."""
        self._last_heartbeat = self._clock()

    def health(self) -> dict[str, object]:
        """Return the answer of `/healthz`."""
        silent_seconds = self._clock() - self._last_heartbeat
        return {"alive": silent_seconds < ALIVE_TIMEOUT, "silent_seconds": round(silent_seconds, 1)}

    def readiness(self, with_standby: bool = False) -> dict[str, object]:
        """Return the answer of `/readyz`, with the partitions in which no owner decides and the reason for each.

        `with_standby`: a standby run counts as ready.
        """
        snapshot = self._metrics.snapshot
        if snapshot is None:
            return {"ready": False, "why": "the run has not begun"}
        if self._clock() - snapshot.polled_at > FRESH_TIMEOUT:
            return {"ready": False, "why": f"no answer from {self._metrics.polled_systems}"}
        waiting_partitions = self._metrics.waiting_by_name()
        if with_standby and waiting_partitions and self._metrics.is_standby():
            return {"ready": True, "standby": True}
        return {"ready": not waiting_partitions, "waiting": waiting_partitions}

    def close(self) -> None:
        """Stop serving."""
        if self._exporter is not None:
            self._exporter.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)


class _Server(ThreadingHTTPServer):
    daemon_threads = True


class _IPv6Server(_Server):
    address_family = socket.AF_INET6


def _server(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    return (_IPv6Server if ":" in host else _Server)((host, port), handler)


def _make_handler(
    registry: CollectorRegistry,
    health: Callable[[], dict[str, object]],
    readiness: Callable[[bool], dict[str, object]],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a request to arrive

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/metrics":
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._answer(200, content_type, encode(registry))
            elif path in ("/healthz", "/readyz"):
                document = health() if path == "/healthz" else readiness(query == "standby")
                is_good = document.get("alive") or document.get("ready")
                self._answer(200 if is_good else 503, "application/json", json.dumps(document).encode())
            else:
                self._answer(404, "text/plain", b"/metrics, /healthz and /readyz\n")

        do_HEAD = do_GET

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                with suppress(ConnectionError):  # the client has closed the connection
                    self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: Prometheus sends a request every few seconds."""

    return Handler
