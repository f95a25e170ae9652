"""How far a task of a replay is.

Events that wait on disk count as not read until their turn comes. Where several tasks read a partition, each one folds
its part of the events.
"""

from cqrs_cli.jobs.engine.words import TaskTeller, TaskWord
from cqrs_cli.owner.telemetry.datagrams import Address


class ReplayTeller(TaskTeller):
    """Tells the driver how many events of a partition are read and folded."""

    def __init__(self, to: Address | None, task: int, parts: int, start: int) -> None:
        """`parts`: the number of tasks that read the partition, each from the offset `start` on."""
        self._task, self._parts, self._start = task, parts, start
        self._offsets = self._events = 0  # that were read
        self._waiting = 0
        super().__init__(to)

    def read(self, events: int, at: int, waiting: int) -> None:
        """Say that some more events were read, the last one at the offset `at`, and how many are on disk now."""
        self._events += events
        self._offsets = at + 1 - self._start
        self.wait(waiting)

    def wait(self, waiting: int) -> None:
        """Say how many events are on disk now."""
        self._waiting = waiting
        self.tell()

    def word(self) -> TaskWord:
        done = max(0.0, 1 - self._waiting * self._parts / max(1, self._events))  # of what was read
        return TaskWord(self._task, int(self._offsets * done), int(self._events * done / self._parts))
