"""A run's metrics for Prometheus, made of the last look at it. docs/metrics.md lists them."""

import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from cqrs_cli.core.messages.reasons import STATUSES, Reason
from cqrs_cli.deciding.measures import STEPS
from cqrs_cli.telemetry.histogram import BATCH_BOUNDS, LATENCY_BOUNDS
from cqrs_cli.version import __version__

if TYPE_CHECKING:
    from cqrs_cli.deciding.plan import Partition
    from cqrs_cli.runs.snapshot import Snapshot

#: The labels of what is counted in each partition.
_PLACE = ("aggregate", "partition")


class Metrics:
    """A collector for a Prometheus registry."""

    asked = "Kafka"

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None

    def collect(self) -> Iterator[Metric]:
        """The metrics now; prometheus-client calls this."""
        yield InfoMetricFamily("cqrs_run", "The version of cqrs.", {"version": __version__})
        snapshot = self.snapshot
        ready = snapshot is not None and not snapshot.waiting_places()
        yield GaugeMetricFamily("cqrs_ready", "1 if the owner of every partition decides.", int(ready))
        if snapshot is not None:
            yield from _of_the_run(snapshot)
            yield from _of_the_claims(snapshot)
            yield from _of_the_processes(snapshot)
            yield from _of_the_reports(snapshot)


def _of_the_run(snapshot: "Snapshot") -> Iterator[Metric]:
    looked_at = time.time() - (time.monotonic() - snapshot.at)
    yield GaugeMetricFamily(
        "cqrs_observed_timestamp_seconds", "When Kafka was last asked how far the run is.", looked_at
    )
    yield CounterMetricFamily(
        "cqrs_submissions",
        "Submissions of the Spark job: each after the first is a lost task.",
        snapshot.submission + 1,
    )


def _of_the_claims(snapshot: "Snapshot") -> Iterator[Metric]:
    """The metrics that the claims and the logs' ends tell, wherever the owners are."""
    commands = CounterMetricFamily("cqrs_commands", "Commands decided.", labels=(*_PLACE, "status"))
    events = CounterMetricFamily("cqrs_events", "Events written.", labels=_PLACE)
    lag = GaugeMetricFamily("cqrs_lag_commands", "Commands that wait to be decided.", labels=_PLACE)
    owned = GaugeMetricFamily("cqrs_partition_owned", "1 if this run owns the partition.", labels=_PLACE)
    for partition, counts in snapshot.counts.items():
        for status in STATUSES:
            commands.add_metric([*_labels(partition), status], getattr(counts, status))
        events.add_metric(_labels(partition), counts.events)
    for partition, waiting in snapshot.lags.items():
        lag.add_metric(_labels(partition), waiting)
        owned.add_metric(_labels(partition), partition not in snapshot.unowned)
    yield from (commands, events, lag, owned)


def _of_the_processes(snapshot: "Snapshot") -> Iterator[Metric]:
    """The metrics of processes, which positions and the logs' ends tell."""
    labels = ("process", *_PLACE)
    position = GaugeMetricFamily(
        "cqrs_process_position", "The offset of the next event that the process reads.", labels=labels
    )
    lag = GaugeMetricFamily("cqrs_process_lag_events", "Events that wait to be reacted to.", labels=labels)
    owned = GaugeMetricFamily(
        "cqrs_process_partition_owned", "1 if this run hears the partition for the process.", labels=labels
    )
    seen = snapshot.processes
    for subscription, end in () if seen is None else seen.ends.items():
        place = [subscription.process, subscription.source.aggregate, str(subscription.source.partition)]
        at = 0 if seen is None else seen.positions.get(subscription, 0)
        position.add_metric(place, at)
        lag.add_metric(place, max(0, end - at))
        owned.add_metric(place, int(seen is not None and subscription in seen.claimed))
    yield from (position, lag, owned)


def _of_the_reports(snapshot: "Snapshot") -> Iterator[Metric]:
    """The metrics that the owners measure themselves."""
    refused = CounterMetricFamily(
        "cqrs_commands_refused", "Commands rejected or failed, by reason.", labels=(*_PLACE, "reason")
    )
    latency = HistogramMetricFamily(
        "cqrs_command_latency_seconds", "From the append of a command to its commit.", labels=_PLACE
    )
    batches = HistogramMetricFamily("cqrs_batch_commands", "Commands of a transaction.", labels=_PLACE)
    aborted = CounterMetricFamily(
        "cqrs_transactions_aborted", "Transactions begun and not known to be committed.", labels=_PLACE
    )
    restarts = CounterMetricFamily(
        "cqrs_owner_restarts", "Owners that began again after an error.", labels=_PLACE
    )
    step = GaugeMetricFamily("cqrs_owner_step", "1 for the step the owner is at.", labels=(*_PLACE, "step"))
    size = GaugeMetricFamily(
        "cqrs_shard_bytes", "Bytes of the shard on disk, or of the store in memory.", labels=_PLACE
    )
    left = GaugeMetricFamily(
        "cqrs_rebuild_remaining_records", "Events and outcomes still to be folded.", labels=_PLACE
    )
    for partition, report in snapshot.reports.items():
        labels, folding = _labels(partition), report.folding
        for reason in Reason:
            refused.add_metric([*labels, reason.name], report.reasons.get(reason.name, 0))
        latency.add_metric(labels, list(_cumulated(LATENCY_BOUNDS, report.latency[0])), report.latency[1])
        batches.add_metric(labels, list(_cumulated(BATCH_BOUNDS, report.batches[0])), report.batches[1])
        aborted.add_metric(labels, report.aborted)
        restarts.add_metric(labels, report.restarts)
        for name in STEPS:
            step.add_metric([*labels, name], name == report.step)
        size.add_metric(labels, report.shard_bytes)
        left.add_metric(labels, 0 if folding is None else folding.records - folding.done)
    yield from (refused, latency, batches, aborted, restarts, step, size, left)


def _labels(partition: "Partition") -> list[str]:
    return [partition.aggregate, str(partition.number)]


def _cumulated(bounds: Sequence[float], counts: Sequence[int]) -> Iterator[tuple[str, int]]:
    """A histogram's buckets as Prometheus has them: each counts the values up to its bound."""
    counts = counts or [0] * (len(bounds) + 1)
    return zip([*(f"{bound:g}" for bound in bounds), "+Inf"], accumulate(counts), strict=False)
