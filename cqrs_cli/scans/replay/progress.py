"""The progress of a replay task.

Events in spill files count as unread until they are folded.
"""

from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import REPORT_INTERVAL, TaskReport, TaskReporter


class ReplayProgress(TaskReporter):
    """Reports to the driver how many events of a partition are read and folded."""

    def __init__(
        self, driver: Address | None, task: int, start: int, interval: float = REPORT_INTERVAL
    ) -> None:
        """`start`: the offset from which the task reads. `interval`: seconds between two reports."""
        self._task, self._start = task, start
        self._offsets = self._events = 0  # numbers of offsets and events that were read
        self._spilled = 0  # number of the read events that are on disk
        super().__init__(driver, interval)

    def start_segment(self, start: int) -> None:
        """Continue in another log segment, whose offsets are counted from `start`."""
        self._start = start

    def report_read(self, events: int, offset: int, spilled: int) -> None:
        """Report that `events` more events were read, up to `offset`, and that `spilled` events are on disk."""
        self._events += events
        self._offsets = offset + 1 - self._start
        self.report_spilled(spilled)

    def report_spilled(self, spilled: int) -> None:
        """Report the number of events on disk."""
        self._spilled = spilled
        self.report_if_due()

    def current_report(self) -> TaskReport:
        # The fraction of the read events that are folded. The other events are on disk.
        folded_share = max(0.0, 1 - self._spilled / max(1, self._events))
        return TaskReport(self._task, int(self._offsets * folded_share), int(self._events * folded_share))
