"""A job's last snapshot as numbers for Prometheus and `/readyz`. docs/metrics.md lists the metrics."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from cqrs_cli.following.projections.plan import ProjectionProgress
from cqrs_cli.status.columns import COLUMNS, PlaceColumn
from cqrs_cli.status.columns import Metric as Shown
from cqrs_cli.status.partition import PLACE_KINDS, PlaceKind, PlaceStatus, idle_places
from cqrs_cli.status.running import places_of_projection
from cqrs_cli.version import __version__


def families(places: Iterable[PlaceStatus], columns: Sequence[PlaceColumn] = COLUMNS) -> Iterator[Metric]:
    """Yield the metrics of partitions, in the order of the columns."""
    by_kind: dict[PlaceKind, list[PlaceStatus]] = {}
    for place in places:
        by_kind.setdefault(place.kind, []).append(place)
    for kind in (kind for kind in PLACE_KINDS if kind in by_kind):
        for column in columns:
            if column.metric is not None and kind in column.metric.kinds:
                yield _family(kind, column, column.metric, by_kind[kind])


def _family(kind: PlaceKind, column: PlaceColumn, said: Shown, places: Iterable[PlaceStatus]) -> Metric:
    more = (said.label,) if said.label else ()
    make = CounterMetricFamily if said.counter else GaugeMetricFamily
    name, text = kind.prefix + said.name.format(**kind.words), said.help.format(**kind.words)
    found: CounterMetricFamily | GaugeMetricFamily = make(name, text, labels=(*kind.labels, *more))
    for place in places:
        value = column.of(place)
        for key, one in value.items() if isinstance(value, Mapping) else [("", value)]:
            if one is not None:
                found.add_metric([*place.labels(), *([key] if more else [])], one)
    return found


class MeasuredLook(Protocol):
    """A snapshot of a job at a time (monotonic seconds), with the number of its resubmitted tasks."""

    @property
    def at(self) -> float: ...

    @property
    def again(self) -> int: ...


_L = TypeVar("_L", bound=MeasuredLook)


class JobMetrics(Generic[_L]):
    """A collector for a Prometheus registry, for the last snapshot of one job."""

    asked = "Kafka"
    prefix = "cqrs"  # of the metrics of the job itself
    info = "cqrs_run"
    ready = "1 if the owner of every partition decides, and every process has all of its partitions."

    def __init__(self) -> None:
        self.snapshot: _L | None = None

    def places(self, look: _L) -> Sequence[PlaceStatus]:
        """Return the status of the job's partitions."""
        raise NotImplementedError

    def more(self, look: _L) -> Iterator[Metric]:
        """Yield the metrics of this job that other jobs do not have."""
        yield from ()

    def waiting(self) -> dict[str, str]:
        """Return the partitions without progress at present, each with the reason."""
        return {} if self.snapshot is None else idle_places(self.places(self.snapshot))

    def standing_by(self) -> bool:
        """True if the job only waits for the active run to end."""
        return False

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics; prometheus-client calls this method."""
        yield InfoMetricFamily(self.info, "The version of cqrs.", {"version": __version__})
        look = self.snapshot
        is_ready = look is not None and not self.waiting()
        yield GaugeMetricFamily(f"{self.prefix}_ready", self.ready, int(is_ready))
        if look is None:
            return
        looked_at = time.time() - (time.monotonic() - look.at)
        yield GaugeMetricFamily(
            f"{self.prefix}_observed_timestamp_seconds", f"When {self.asked} was last asked.", looked_at
        )
        yield CounterMetricFamily(
            f"{self.prefix}_submissions",
            "Submissions of tasks to Spark: each after the first is of one that was lost.",
            look.again + 1,
        )
        yield from self.more(look)
        yield from families(self.places(look))


class ProjectionMetrics(JobMetrics[ProjectionProgress]):
    """The metrics of a projection."""

    asked = "Kafka or the database"
    prefix = info = "cqrs_projection"
    ready = "1 if events come into the tables served."

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def places(self, look: ProjectionProgress) -> Sequence[PlaceStatus]:
        return places_of_projection(self._name, look)

    def more(self, look: ProjectionProgress) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "cqrs_projection_rebuilding", "1 while new tables are filled beside others.", int(look.beside)
        )
