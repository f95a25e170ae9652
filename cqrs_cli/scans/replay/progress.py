"""The progress of a replay task.

Events in spill files count as unread until they are folded.
"""

from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import REPORT_INTERVAL, TaskReport, TaskReporter


class ReplayProgress(TaskReporter):
    """Reports to the driver how many events of a partition are read and folded."""

    def __init__(self, to: Address | None, task: int, start: int, interval: float = REPORT_INTERVAL) -> None:
        """`start`: the offset from which the task reads."""
        self._task, self._start = task, start
        self._offsets = self._events = 0  # read so far
        self._spilled = 0
        super().__init__(to, interval)

    def start_segment(self, start: int) -> None:
        """Continue in another log. `start`: is subtracted from a position to get the number of finished offsets."""
        self._start = start

    def report_read(self, events: int, offset: int, spilled: int) -> None:
        """Report that more events were read, the last event at offset `offset`, and the number of events on disk."""
        self._events += events
        self._offsets = offset + 1 - self._start
        self.report_spilled(spilled)

    def report_spilled(self, spilled: int) -> None:
        """Report the number of events on disk."""
        self._spilled = spilled
        self.report_if_due()

    def current_report(self) -> TaskReport:
        folded_share = max(
            0.0, 1 - self._spilled / max(1, self._events)
        )  # share of the read events that are folded
        return TaskReport(self._task, int(self._offsets * folded_share), int(self._events * folded_share))
