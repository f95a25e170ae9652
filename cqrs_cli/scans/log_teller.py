"""The progress of a task that reads the logs of a partition, one after the other or in parallel."""

from collections.abc import Iterable, Iterator

from cqrs_cli.core.messages.record import Record
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import REPORT_INTERVAL, TaskReport, TaskReporter


class LogProgress(TaskReporter):
    """Reports to the driver how much of a partition's logs is read."""

    def __init__(self, to: Address | None, partition: int, every: float = REPORT_INTERVAL) -> None:
        self._partition = partition
        self.records = 0  # records read so far
        self._offsets = 0  # offsets read so far, with gaps between records
        self._whole: int | None = None
        super().__init__(to, every)

    def begin(self, whole: int) -> None:
        """Start with a total of `whole` offsets to read."""
        self._whole, self._offsets, self.records = whole, 0, 0

    def extend(self, more: int) -> None:
        """Add `more` offsets to the total."""
        self._whole = more + (self._whole or 0)

    def read(self, records: int, offsets: int) -> None:
        """Report that more records and offsets were read."""
        self.records += records
        self._offsets += offsets
        self.report_if_due()

    def follow(self, log: Iterable[list[Record]], start: int, end: int) -> Iterator[list[Record]]:
        """Yield the batches of a log from `start` to `end`, and report each batch after the caller has processed it."""
        for records in log:
            yield records
            after = records[-1].offset + 1
            self.read(len(records), after - start)
            start = after
        self.read(0, end - start)  # the last offsets may have no records

    def current_report(self) -> TaskReport:
        return TaskReport(self._partition, self._offsets, self.records, self._whole)
