"""A run's metrics for Prometheus, from the last snapshot of the run. docs/metrics.md lists them."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.deciding.measures import COUNTERS, STEPS
from cqrs_cli.status.metrics import JobMetrics
from cqrs_cli.telemetry.histogram import BATCH_BOUNDS, LATENCY_BOUNDS

if TYPE_CHECKING:
    from cqrs_cli.deciding.plan import Partition
    from cqrs_cli.runs.snapshot import Snapshot
    from cqrs_cli.status.partition import PartitionStatus

#: The labels of the metrics of each partition.
_LABELS = ("aggregate", "partition")


class Metrics(JobMetrics["Snapshot"]):
    """The metrics of a run: the status of its partitions, and the measurements that their owners report."""

    def partition_statuses(self, snapshot: "Snapshot") -> "Sequence[PartitionStatus]":
        return snapshot.partition_statuses()

    def is_standby(self) -> bool:
        return self.snapshot is not None and self.snapshot.is_standby()

    def extra_metrics(self, snapshot: "Snapshot") -> Iterator[Metric]:
        """Yield the metrics that owners of aggregates' partitions measure; nothing for a run without aggregates."""
        if not snapshot.reports:
            return
        rejections = CounterMetricFamily(
            "cqrs_commands_refused", "Commands rejected or failed, by reason.", labels=(*_LABELS, "reason")
        )
        latency = HistogramMetricFamily(
            "cqrs_command_latency_seconds", "From the append of a command to its commit.", labels=_LABELS
        )
        batches = HistogramMetricFamily("cqrs_batch_commands", "Commands of a transaction.", labels=_LABELS)
        counters = {
            name: CounterMetricFamily(f"cqrs_{name}", help, labels=_LABELS) for name, help in COUNTERS.items()
        }
        step = GaugeMetricFamily(
            "cqrs_owner_step", "1 for the step the owner is at.", labels=(*_LABELS, "step")
        )
        size = GaugeMetricFamily(
            "cqrs_shard_bytes", "Bytes of the shard on disk, or of the store in memory.", labels=_LABELS
        )
        remaining_records = GaugeMetricFamily(
            "cqrs_rebuild_remaining_records", "Events and outcomes still to be folded.", labels=_LABELS
        )
        for partition, report in snapshot.reports.items():
            labels, folding = _labels(partition), report.folding
            for reason in Reason:
                rejections.add_metric([*labels, reason.name], report.reasons.get(reason.name, 0))
            latency_counts, latency_sum = report.latency
            latency.add_metric(labels, list(_cumulative_buckets(LATENCY_BOUNDS, latency_counts)), latency_sum)
            batch_counts, batch_sum = report.batches
            batches.add_metric(labels, list(_cumulative_buckets(BATCH_BOUNDS, batch_counts)), batch_sum)
            for name, counter in counters.items():
                counter.add_metric(labels, report.counts.get(name, 0))
            for name in STEPS:
                step.add_metric([*labels, name], name == report.step)
            size.add_metric(labels, report.shard_bytes)
            remaining_records.add_metric(labels, 0 if folding is None else folding.records - folding.done)
        yield from (rejections, latency, batches, *counters.values(), step, size, remaining_records)


def _labels(partition: "Partition") -> list[str]:
    return [partition.aggregate, str(partition.number)]


def _cumulative_buckets(bounds: Sequence[float], counts: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Return (bound, count) pairs in Prometheus' form: each count includes all values up to the bound. `counts`: the
    number of values in each bucket; empty if there are no values.
    """
    counts = counts or [0] * (len(bounds) + 1)
    return zip([*(f"{bound:g}" for bound in bounds), "+Inf"], accumulate(counts), strict=False)
