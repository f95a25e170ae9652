"""Receives the owners' reports in the driver of a run, and measures for how long owners have sent no report."""

import time
from collections.abc import Callable, Mapping

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport, decode_report
from cqrs_cli.telemetry.listener import DatagramListener

#: The maximal number of seconds of silence that one poll adds.
_MAX_POLL_SECONDS = 2.0


class ReportSilence:
    """Measures for how long the owner of each partition has sent no report. Each poll adds at most `_MAX_POLL_SECONDS`,
    so that a pause of the driver itself does not count as silence.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._polled_at = clock()
        # Partition → (`order` of its latest report, seconds since this report).
        self._order_and_silence: dict[Partition, tuple[tuple[int, int, int], float]] = {}

    def observe(self, reports: Mapping[Partition, OwnerReport]) -> dict[Partition, float]:
        """Store the latest reports, and return partition → seconds of silence.

        The silence of an owner that has ended is 0, although it sends no more reports.
        """
        polled_at = self._clock()
        elapsed_seconds, self._polled_at = min(polled_at - self._polled_at, _MAX_POLL_SECONDS), polled_at
        for partition, report in reports.items():
            order, silence = self._order_and_silence.get(partition, (report.order, -elapsed_seconds))
            is_silent = order == report.order and report.step != "ended"
            self._order_and_silence[partition] = report.order, silence + elapsed_seconds if is_silent else 0.0
        return {partition: silence for partition, (_, silence) in self._order_and_silence.items()}


class Reports(DatagramListener):
    """Receives the reports of a run's owners. Use it as a context manager."""

    def __init__(self, host: str) -> None:
        self._latest: dict[Partition, OwnerReport] = {}  # partition → its latest report
        super().__init__(host)

    def latest_reports(self) -> dict[Partition, OwnerReport]:
        """Return partition → latest report of its owner."""
        return dict(self._latest)

    def _receive_report(self, body: bytes) -> None:
        report = decode_report(body)
        if report is None:
            return
        partition = Partition(report.aggregate, report.partition)
        previous_report = self._latest.get(partition)
        if previous_report is None or report.order > previous_report.order:
            self._latest[partition] = report
