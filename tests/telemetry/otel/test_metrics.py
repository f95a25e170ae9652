"""The metrics of a run by OTLP, and the same metrics for Prometheus."""

from prometheus_client import CollectorRegistry

from cqrs_cli.runs.endpoint import Endpoint
from cqrs_cli.runs.metrics import Metrics
from cqrs_cli.runs.snapshot import Snapshot
from tests.support.collector import Collector
from tests.support.progress import owner_report, run_snapshot


def test_metrics_have_the_names_of_prometheus(collector: Collector) -> None:
    metrics, registry = Metrics(), CollectorRegistry()
    snapshot = run_snapshot(owner_report())
    endpoint: Endpoint[Snapshot] = Endpoint(metrics, "127.0.0.1", 0)
    endpoint.update(snapshot)
    endpoint.close()
    registry.register(metrics)
    samples = [sample for family in registry.collect() for sample in family.samples]
    histograms = {name for name, metric in collector.metrics.items() if metric.HasField("histogram")}
    names = {sample.name for sample in samples}
    assert {name for name in names if name.rpartition("_")[0] not in histograms} == (
        collector.metrics.keys() - histograms
    )
    point = collector.metrics["cqrs_batch_commands"].histogram.data_points[0]
    labels = {label.key: label.value.string_value for label in point.attributes}
    assert point.count == registry.get_sample_value("cqrs_batch_commands_count", labels)
    assert sum(point.bucket_counts) == point.count
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert collector.metrics["cqrs_commands_total"].sum.is_monotonic
