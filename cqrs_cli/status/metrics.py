"""A job's last snapshot as numbers for Prometheus and `/readyz`. docs/metrics.md lists the metrics."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from cqrs_cli.following.projections.plan import ProjectionProgress
from cqrs_cli.status.columns import COLUMNS, StatusColumn, StatusMetric
from cqrs_cli.status.partition import PARTITION_KINDS, PartitionKind, PartitionStatus, idle_partitions
from cqrs_cli.status.running import running_projection_statuses
from cqrs_cli.version import __version__


def metric_families(
    statuses: Iterable[PartitionStatus], columns: Sequence[StatusColumn] = COLUMNS
) -> Iterator[Metric]:
    """Yield the metrics of partitions, in the order of the columns."""
    by_kind: dict[PartitionKind, list[PartitionStatus]] = {}
    for status in statuses:
        by_kind.setdefault(status.kind, []).append(status)
    for kind in PARTITION_KINDS:
        for column in columns if kind in by_kind else ():
            if column.metric is not None and kind in column.metric.kinds:
                yield _metric_family(kind, column, column.metric, by_kind[kind])


def _metric_family(
    kind: PartitionKind, column: StatusColumn, metric: StatusMetric, statuses: Iterable[PartitionStatus]
) -> Metric:
    key_labels = (metric.key_label,) if metric.key_label else ()
    texts = kind.placeholder_values
    family_class = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
    name, help = kind.prefix + metric.name.format(**texts), metric.help.format(**texts)
    family: CounterMetricFamily | GaugeMetricFamily = family_class(
        name, help, labels=(*kind.label_names, *key_labels)
    )
    for status in statuses:
        value = column.value_of(status)
        for key, number in value.items() if isinstance(value, Mapping) else [("", value)]:
            if number is not None:
                family.add_metric([*status.label_values(), *([key] if key_labels else [])], number)
    return family


class MeasuredSnapshot(Protocol):
    """A snapshot of a job: when it was taken (monotonic seconds), and the number of resubmitted tasks so far."""

    @property
    def polled_at(self) -> float: ...

    @property
    def resubmissions(self) -> int: ...


_Snapshot = TypeVar("_Snapshot", bound=MeasuredSnapshot)


class JobMetrics(Generic[_Snapshot]):
    """A collector for a Prometheus registry, for the last snapshot of one job."""

    polled_systems = "Kafka"
    prefix = "cqrs"  # the prefix of the names of the job's own metrics
    info_name = "cqrs_run"  # the metric with the version
    ready_help = "1 if the owner of every partition decides, and every process has all of its partitions."

    def __init__(self) -> None:
        self.snapshot: _Snapshot | None = None

    def partition_statuses(self, snapshot: _Snapshot) -> Sequence[PartitionStatus]:
        """Return the status of the job's partitions."""
        raise NotImplementedError

    def extra_metrics(self, snapshot: _Snapshot) -> Iterator[Metric]:
        """Yield the metrics of this job that other jobs do not have."""
        yield from ()

    def waiting_by_name(self) -> dict[str, str]:
        """Return the partitions without progress at present, each with the reason."""
        return {} if self.snapshot is None else idle_partitions(self.partition_statuses(self.snapshot))

    def is_standby(self) -> bool:
        """True if the job only waits for the active run to end."""
        return False

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics; prometheus-client calls this method."""
        yield InfoMetricFamily(self.info_name, "The version of cqrs.", {"version": __version__})
        snapshot = self.snapshot
        is_ready = snapshot is not None and not self.waiting_by_name()
        yield GaugeMetricFamily(f"{self.prefix}_ready", self.ready_help, int(is_ready))
        if snapshot is None:
            return
        polled_at = time.time() - (time.monotonic() - snapshot.polled_at)
        yield GaugeMetricFamily(
            f"{self.prefix}_observed_timestamp_seconds",
            f"Time of the last poll of {self.polled_systems}.",
            polled_at,
        )
        yield CounterMetricFamily(
            f"{self.prefix}_submissions",
            "Submissions of tasks to Spark; each submission after the first replaces a lost task.",
            snapshot.resubmissions + 1,
        )
        yield from self.extra_metrics(snapshot)
        yield from metric_families(self.partition_statuses(snapshot))


class ProjectionMetrics(JobMetrics[ProjectionProgress]):
    """The metrics of a projection."""

    polled_systems = "Kafka or the database"
    prefix = info_name = "cqrs_projection"
    ready_help = "1 if the projection writes new events to the tables that are queried."

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def partition_statuses(self, snapshot: ProjectionProgress) -> Sequence[PartitionStatus]:
        return running_projection_statuses(self._name, snapshot)

    def extra_metrics(self, snapshot: ProjectionProgress) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "cqrs_projection_rebuilding",
            "1 while a rebuild fills new tables.",
            int(snapshot.is_shadow),
        )
