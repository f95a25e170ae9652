"""Polls the status of all partitions in a thread, and keeps the last fifteen minutes in memory."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.errors import CqrsError
from cqrs_cli.status.partition import AGGREGATE, PROCESS, PartitionStatus
from cqrs_cli.status.rates import StatusSnapshot, with_rates
from cqrs_cli.status.reader import StatusReader

#: Seconds for which points are kept.
_HISTORY_SECONDS = 900.0

#: The shortest interval between two polls, in seconds.
_INTERVAL = 1.0

#: The maximal share of a processor core that polls and their encoding take: with many partitions, polls are less
#: frequent. A poll of 1,000 partitions takes 20 ms of the thread. The threads of its Kafka clients take another 1 %.
_MAX_LOAD = 0.04

#: The weight of the newest poll in the moving average of the cost of polls.
_COST_WEIGHT = 0.2

#: Seconds until the next poll after an error.
_ERROR_INTERVAL = 5.0

#: Number of partitions of an aggregate whose newest records are read at each poll.
_MAX_DETAILED = 8

#: The sums over the partitions of an aggregate or process manager at one time, such as `{"lag": 3, "decided": 12.5}`.
Series = Mapping[str, float | None]


class Point(NamedTuple):
    """The sums at one time."""

    time_ms: int  # ms since 1970
    series: Mapping[str, Series]  # name of an aggregate, or `process NAME` → its sums
    #: Aggregate → reason or code → number of outcomes since the previous point.
    reasons: Mapping[str, Mapping[str, int]]


class Sample(NamedTuple):
    """The newest poll. If it has failed, `error` is set, and `snapshot` and `point` are from the last poll without an
    error.
    """

    snapshot: StatusSnapshot | None
    point: Point | None
    interval: float  # seconds until the next poll
    error: CqrsError | None = None


class StatusSampler:
    """Polls from `start` to `close`. `on_sample` is called in its thread after each poll."""

    def __init__(self, project: ConsoleProject, interval: float = _INTERVAL) -> None:
        self.sample = Sample(None, None, interval)
        self.on_sample: Callable[[], None] = lambda: None
        self.encoding_cost = 0.0  # processor seconds that `overview_events` took to encode the newest poll
        self._project, self._interval = project, interval
        self._points: deque[Point] = deque()
        self._cost = 0.0  # average processor seconds of a poll in this thread; 0 before the second poll
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console status", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. Idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def points_since(self, time_ms: int) -> list[Point]:
        """Return the points after a time (ms), the oldest first."""
        return [point for point in list(self._points) if point.time_ms > time_ms]

    def reasons(self) -> dict[str, dict[str, int]]:
        """Return aggregate → reason or code → number of outcomes in all points, the largest numbers first."""
        totals: dict[str, Counter[str]] = {}
        for point in list(self._points):
            for name, reasons in point.reasons.items():
                totals.setdefault(name, Counter()).update(reasons)
        return {name: dict(counter.most_common()) for name, counter in totals.items()}

    def _run(self) -> None:
        reader: StatusReader | None = None
        while not self._stopping.is_set():
            began_at, started_at = time.monotonic(), time.thread_time()
            try:
                reader = reader or self._open_reader()
                self._add(reader.poll_statuses(), started_at)
                wait = self.sample.interval
            except CqrsError as error:
                self.sample, wait = self.sample._replace(error=error), _ERROR_INTERVAL
            self.on_sample()
            self._stopping.wait(max(0.0, wait - (time.monotonic() - began_at)))
        if reader is not None:
            reader.close()

    def _open_reader(self) -> StatusReader:
        return StatusReader(
            self._project.connection,
            self._project.all_topics(),
            self._project.state_dir,
            self._project.processes,
            prefix=self._project.settings.topic_prefix,
            confirm_hidden=True,
            max_samples=_MAX_DETAILED,
        )

    def _add(self, snapshot: StatusSnapshot, started_at: float) -> None:
        snapshot = with_rates(self.sample.snapshot, snapshot)
        point = point_of(snapshot)
        self._points.append(point)
        while point.time_ms - self._points[0].time_ms > _HISTORY_SECONDS * 1000:
            self._points.popleft()
        cost = time.thread_time() - started_at + self.encoding_cost
        self.encoding_cost = 0.0
        if self.sample.snapshot is not None:  # the first poll also opens connections
            self._cost = self._cost + _COST_WEIGHT * (cost - self._cost) if self._cost else cost
        interval = max(self._interval, self._cost / _MAX_LOAD)
        self.sample = Sample(snapshot, point, interval)


def point_of(snapshot: StatusSnapshot) -> Point:
    """Return the sums over the partitions of each aggregate and process manager in a snapshot."""
    groups: dict[str, list[PartitionStatus]] = {}
    for status in snapshot.statuses:
        name = f"process {status.name}" if status.kind is PROCESS else status.name
        groups.setdefault(name, []).append(status)
    reasons: dict[str, Counter[str]] = {}
    for status in snapshot.statuses:
        if status.reasons:
            reasons.setdefault(status.name, Counter()).update(status.reasons)
    return Point(snapshot.clock, {name: _sums(statuses) for name, statuses in groups.items()}, reasons)


def _sums(statuses: list[PartitionStatus]) -> Series:
    rates = [status.rates for status in statuses if status.rates is not None]
    sums: dict[str, float | None] = {"lag": sum(status.lag or 0 for status in statuses)}
    sums["decided"] = round(sum(rate.done for rate in rates), 2) if rates else None
    if statuses[0].kind is AGGREGATE:
        sums["sent"] = round(sum(rate.sent or 0.0 for rate in rates), 2) if rates else None
        sums["rejected"] = round(sum(rate.rejected for rate in rates), 2) if rates else None
        sums["oldest_ms"] = _largest(status.oldest_age_ms for status in statuses)
        sums["latency_ms"] = _largest(status.latency_ms for status in statuses)
    return sums


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
