"""Progress reports of a task that reads the logs of a partition."""

from collections.abc import Iterable, Iterator

from cqrs_cli.core.messages.record import Record
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import REPORT_INTERVAL, TaskReport, TaskReporter


class LogProgress(TaskReporter):
    """Reports to the driver how much of a partition's logs is read."""

    def __init__(self, driver: Address | None, partition: int, interval: float = REPORT_INTERVAL) -> None:
        self._partition = partition
        self.records = 0  # records read so far
        self._read_offsets = 0  # offsets read so far, including offsets without a record
        self._total: int | None = None  # number of offsets to read; None before `start` and `extend`
        super().__init__(driver, interval)

    def start(self, total: int) -> None:
        """Reset the counts. `total`: the number of offsets to read."""
        self._total, self._read_offsets, self.records = total, 0, 0

    def extend(self, offsets: int) -> None:
        """Increase the total: the task will read this number of further offsets."""
        self._total = offsets + (self._total or 0)

    def report_read(self, records: int, offsets: int) -> None:
        """Report that more records and offsets were read."""
        self.records += records
        self._read_offsets += offsets
        self.report_if_due()

    def track(self, log: Iterable[list[Record]], start: int, end: int) -> Iterator[list[Record]]:
        """Yield the batches of a log from `start` to `end`, and report each batch after the caller has processed it."""
        for records in log:
            yield records
            next_offset = records[-1].offset + 1
            self.report_read(len(records), next_offset - start)
            start = next_offset
        self.report_read(0, end - start)  # the last offsets may have no records

    def current_report(self) -> TaskReport:
        return TaskReport(self._partition, self._read_offsets, self.records, self._total)
