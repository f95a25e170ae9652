"""A run's counters for Prometheus, on loopback only."""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cqrs_cli.jobs.run.progress import Snapshot


class Metrics:
    """`cqrs_commands_total{aggregate,partition,status}`, `cqrs_events_total{aggregate,partition}`, `cqrs_lag`."""

    def __init__(self, port: int) -> None:
        """Raises `ConfigurationError` if the port is taken."""
        self._snapshot: Snapshot | None = None
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, "127.0.0.1", registry)
        except OSError as error:
            raise ConfigurationError(
                f"port {port} cannot be used for metrics: {error}", "choose another"
            ) from error

    def update(self, snapshot: "Snapshot") -> None:
        """Serve these counters from now on."""
        self._snapshot = snapshot

    def collect(self) -> "Iterator[Metric]":
        """The counters now; prometheus-client calls this."""
        from cqrs_cli.core.messages.reasons import STATUSES

        snapshot = self._snapshot
        if snapshot is None:
            return
        commands = CounterMetricFamily(
            "cqrs_commands", "Commands decided.", labels=("aggregate", "partition", "status")
        )
        events = CounterMetricFamily("cqrs_events", "Events written.", labels=("aggregate", "partition"))
        for (name, partition), counts in snapshot.counts.items():
            for status in STATUSES:
                commands.add_metric((name, str(partition), status), getattr(counts, status))
            events.add_metric((name, str(partition)), counts.events)
        yield commands
        yield events
        yield GaugeMetricFamily("cqrs_lag", "Commands that wait to be decided.", value=snapshot.lag)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)
