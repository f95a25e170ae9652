"""Exports the metrics of a Prometheus registry by OTLP over HTTP, with the same names and labels."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family

from cqrs_cli.telemetry.otel.export_settings import read_export_settings
from cqrs_cli.telemetry.otel.exporter import CLOSE_TIMEOUT, SCOPE, process_resource

_CUMULATIVE = AggregationTemporality.CUMULATIVE


class MetricsExporter:
    """Exports all metrics of a registry at intervals, in a thread of its own, until it is closed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Raises `ConfigurationError` as `read_export_settings` does."""
        self._interval = read_export_settings().metric_interval / 1000  # seconds
        self._registry, self._exporter, self._resource = registry, OTLPMetricExporter(), process_resource()
        self._start, self._closing = time.time_ns(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics by OTLP", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Export at intervals, and once more at the end. A failed export does not stop later exports."""
        while not self._closing.wait(self._interval):
            self.export()
        self.export()

    def export(self) -> None:
        """Export the current metrics."""
        metrics = [*otlp_metrics(self._registry.collect(), self._start, time.time_ns())]
        scope_metrics = [ScopeMetrics(SCOPE, metrics, "")]
        self._exporter.export(MetricsData([ResourceMetrics(self._resource, scope_metrics, "")]))

    def close(self) -> None:
        """Export for the last time, and end the thread, within a few seconds."""
        self._closing.set()
        self._thread.join(CLOSE_TIMEOUT)


def otlp_metrics(families: Iterable[Family], start: int, now: int) -> Iterator[Metric]:
    """Yield Prometheus' metrics as metrics of OpenTelemetry; `start` and `now` in ns since the epoch."""
    for family in families:
        data: Sum | Gauge | Histogram
        if family.type == "histogram":
            name, data = family.name, Histogram([*_histograms(family, start, now)], _CUMULATIVE)
        elif family.samples:
            name = family.samples[0].name
            points = [
                NumberDataPoint(dict(sample.labels), start, now, float(sample.value))
                for sample in family.samples
            ]
            data = Sum(points, _CUMULATIVE, is_monotonic=True) if family.type == "counter" else Gauge(points)
        else:
            continue
        yield Metric(name, family.documentation, None, data)


def _histograms(family: Family, start: int, now: int) -> Iterator[HistogramDataPoint]:
    """Yield the histogram of each set of labels. Prometheus' buckets count all values up to their bound."""
    values: dict[tuple[tuple[str, str], ...], dict[str, float]] = defaultdict(dict)
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        values[labels][sample.labels.get("le", sample.name.removeprefix(f"{family.name}_"))] = sample.value
    unknown: Any = None  # the minimum and the maximum, which Prometheus does not record
    for labels, counts in values.items():
        total, count = counts.pop("sum", 0.0), int(counts.pop("count", 0))
        cumulative = [int(value) for value in counts.values()]
        buckets = [value - previous for value, previous in zip(cumulative, [0, *cumulative], strict=False)]
        bounds = [float(bound) for bound in counts if bound != "+Inf"]
        yield HistogramDataPoint(dict(labels), start, now, count, total, buckets, bounds, unknown, unknown)
