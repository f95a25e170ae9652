"""The owners' reports to the driver of a run: the latest report of each partition."""

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport, decode_report
from cqrs_cli.following.processes.plan import ABOUT_PROCESSES
from cqrs_cli.telemetry.datagrams import decode_message
from cqrs_cli.telemetry.listener import DatagramListener


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
        return [text for about, text in messages if self.is_new(about, text)]

    def is_new(self, about: str, text: str) -> bool:
        """True for the first message with this text about this aggregate or process."""
        is_known = (about, text) in self._seen_messages
        self._seen_messages.add((about, text))
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
        before = self._latest.get(partition)
        if before is None or report.order > before.order:
            self._latest[partition] = report
