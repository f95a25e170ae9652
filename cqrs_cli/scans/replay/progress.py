"""The progress of a task of a replay.

Events that wait on disk count as not read until their turn comes.
"""

from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import TELL_EVERY, TaskReport, TaskReporter


class ReplayTeller(TaskReporter):
    """Tells the driver how many events of a partition are read and folded."""

    def __init__(self, to: Address | None, task: int, start: int, every: float = TELL_EVERY) -> None:
        """`start`: the offset from which the task reads on."""
        self._task, self._start = task, start
        self._offsets = self._events = 0  # that were read
        self._waiting = 0
        super().__init__(to, every)

    def begin(self, start: int) -> None:
        """Go on in another log: `start` is the place in it from which the offsets count that are done."""
        self._start = start

    def read(self, events: int, at: int, waiting: int) -> None:
        """Say that some more events were read, the last one at the offset `at`, and how many are on disk now."""
        self._events += events
        self._offsets = at + 1 - self._start
        self.wait(waiting)

    def wait(self, waiting: int) -> None:
        """Say how many events are on disk now."""
        self._waiting = waiting
        self.tell()

    def word(self) -> TaskReport:
        done = max(0.0, 1 - self._waiting / max(1, self._events))  # of what was read
        return TaskReport(self._task, int(self._offsets * done), int(self._events * done))
