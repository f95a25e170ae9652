"""A projection's metrics for Prometheus, made of the last look at it. docs/metrics.md lists them."""

import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric

from cqrs_cli.following.projections.plan import ProjectionProgress
from cqrs_cli.version import __version__

_PLACE = ("projection", "aggregate", "partition")


class ProjectionMetrics:
    """A collector for a Prometheus registry."""

    asked = "Kafka or the database"

    def __init__(self, name: str) -> None:
        self._name = name
        self.snapshot: ProjectionProgress | None = None

    def collect(self) -> Iterator[Metric]:
        """The metrics now; prometheus-client calls this."""
        yield InfoMetricFamily("cqrs_projection", "The version of cqrs.", {"version": __version__})
        snapshot = self.snapshot
        ready = snapshot is not None and not snapshot.waiting_places()
        yield GaugeMetricFamily(
            "cqrs_projection_ready", "1 if events come into the tables served.", int(ready)
        )
        if snapshot is None:
            return
        looked_at = time.time() - (time.monotonic() - snapshot.at)
        yield GaugeMetricFamily(
            "cqrs_projection_observed_timestamp_seconds",
            "When database and Kafka were last asked.",
            looked_at,
        )
        yield GaugeMetricFamily(
            "cqrs_projection_rebuilding", "1 while new tables are filled beside others.", int(snapshot.beside)
        )
        lag = GaugeMetricFamily("cqrs_projection_lag_events", "Events to be projected.", labels=_PLACE)
        position = GaugeMetricFamily(
            "cqrs_projection_position", "The offset of the next event to project.", labels=_PLACE
        )
        for source, waiting in snapshot.lags.items():
            labels = [self._name, source.aggregate, str(source.partition)]
            lag.add_metric(labels, waiting)
            position.add_metric(labels, snapshot.positions.get(source, 0))
        yield from (lag, position)
