"""The owners' reports to the driver of a run: the latest report of each partition."""

import time
from collections.abc import Callable, Mapping

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport, decode_report
from cqrs_cli.following.processes.plan import ABOUT_PROCESSES
from cqrs_cli.telemetry.datagrams import decode_message
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
        """Store the latest reports; return the seconds of silence of each partition. An owner that has ended reports
        no more, and is not silent.
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
        self._latest: dict[Partition, OwnerReport] = {}
        self._seen_messages: set[tuple[str, str]] = set()
        self._process_messages: list[str] = []
        super().__init__(host)

    def latest_reports(self) -> dict[Partition, OwnerReport]:
        """Return the last report of each partition that has sent a report."""
        return dict(self._latest)

    def new_messages(self) -> list[str]:
        """Return the messages of owners and processes that were not returned before."""
        messages = [(ABOUT_PROCESSES, text) for text in list(self._process_messages)]
        for partition, report in sorted(self.latest_reports().items()):
            messages += ((partition.aggregate, text) for text in report.notes)
        return [text for subject, text in messages if self.is_new(subject, text)]

    def is_new(self, subject: str, text: str) -> bool:
        """True for the first message with this text about `subject`, an aggregate's name or `ABOUT_PROCESSES`."""
        is_known = (subject, text) in self._seen_messages
        self._seen_messages.add((subject, text))
        return not is_known

    def _receive(self, body: bytes) -> None:
        text = decode_message(body)
        if text is not None:  # from a process
            self._process_messages.append(text)
            return
        report = decode_report(body)
        if report is None:
            return
        partition = Partition(report.aggregate, report.partition)
        previous_report = self._latest.get(partition)
        if previous_report is None or report.order > previous_report.order:
            self._latest[partition] = report
