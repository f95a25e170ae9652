"""The owners' reports to the driver of a run: the latest report of each partition."""

import time
from collections.abc import Callable, Mapping

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport, decode_report
from cqrs_cli.telemetry.listener import DatagramListener

#: One poll of the driver counts at most this many seconds of silence.
_MAX_POLL_SECONDS = 2.0


class ReportSilence:
    """Measures for how long the owner of each partition has sent no report. A poll counts for two seconds at most, so
    that a pause of the driver itself is not counted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._polled_at = clock()
        # Partition → the order of its latest report, and the seconds without a later report.
        self._order_and_silence: dict[Partition, tuple[tuple[int, int, int], float]] = {}

    def observe(self, reports: Mapping[Partition, OwnerReport]) -> dict[Partition, float]:
        """Store the latest reports; return the seconds of silence of each partition.

        An owner that has ended is not silent, although it sends no more reports.
        """
        polled_at = self._clock()
        elapsed_seconds, self._polled_at = min(polled_at - self._polled_at, _MAX_POLL_SECONDS), polled_at
        for partition, report in reports.items():
            order, silence = self._order_and_silence.get(partition, (report.order, -elapsed_seconds))
            is_silent = order == report.order and report.step != "ended"
            self._order_and_silence[partition] = report.order, silence + elapsed_seconds if is_silent else 0.0
        return {partition: silence for partition, (_, silence) in self._order_and_silence.items()}


class Reports(DatagramListener):
    """Receives the reports of a run's owners. Use as a context manager."""

    def __init__(self, host: str) -> None:
        self._latest: dict[Partition, OwnerReport] = {}  # partition → its latest report
        super().__init__(host)

    def latest_reports(self) -> dict[Partition, OwnerReport]:
        """Return the last report of each partition that has sent a report."""
        return dict(self._latest)

    def _receive_report(self, body: bytes) -> None:
        report = decode_report(body)
        if report is None:
            return
        partition = Partition(report.aggregate, report.partition)
        previous_report = self._latest.get(partition)
        if previous_report is None or report.order > previous_report.order:
            self._latest[partition] = report
