"""The driver of long-running tasks: it watches them until they are done."""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.long_job import LongWork
from cqrs_cli.jobs.engine.partition_job import PartitionResult
from cqrs_cli.jobs.engine.task_group import TaskGroup

if TYPE_CHECKING:
    from pyspark import SparkContext

_R = TypeVar("_R", bound=PartitionResult)
_P = TypeVar("_P")


def run_crew(context: "SparkContext", work: LongWork[_R, _P], tasks: int, note: Callable[[str], None]) -> _P:
    """Run the work with this number of tasks to its end, or for ever; return the progress.

    Raises the error that ended the work: an owner's error, or `UnavailableError` for partitions without an owner.
    """
    crew = TaskGroup(context, work, note)
    try:
        crew.begin(tasks)
        _watch(crew, work, note)
        done = work.ended(crew.results())
        work.end(crew.jobs)
        return done
    except Exception as error:
        work.stop(crew.jobs)
        if jvm.is_gone(context):
            raise CqrsError(
                "Spark's JVM is gone, and its tasks with it", "see the log, then start again"
            ) from error
        raise
    except BaseException:
        if work.stop(crew.jobs):
            with suppress(UnavailableError):
                work.show(work.look()())  # the progress until the very end
        raise


def _watch(crew: TaskGroup[_R, _P], work: LongWork[_R, _P], note: Callable[[str], None]) -> None:
    """Watch until all tasks have ended: show the progress; end the run if it is over or a partition has no owner."""
    unowned = UnownedPlaces(work.timing.claim_deadline)
    ending = False
    look: _Look[_P] | None = None
    while crew.is_at_work():
        crew.wait(work.timing.progress_interval)
        crew.is_finished = crew.is_finished or work.is_over(crew.results())
        if crew.submit_due():
            unowned.restart()
        lost, look = crew.lost(), look or _Look(work)
        if look.is_late():
            progress, lost = None, crew.lost()  # the previous poll counts
        else:
            progress, look = _found(look, note), None
        for member in lost:
            crew.pause(member)
        if progress is None:
            unowned.restart()  # without an answer, no claim is possible
            continue
        work.show(progress)
        for text in work.fresh_notes():
            note(text)
        if crew.is_finished and not ending:
            ending = True
            work.end(crew.jobs)
        if ending:
            continue
        work.check()
        if work.endless:
            crew.spread()
        if work.needs_time():
            unowned.restart()
        if overdue := unowned.overdue(work.unowned(progress)):
            raise UnavailableError(
                f"no owner of {', '.join(overdue)} for {work.timing.claim_deadline:.0f} s",
                "are there enough task slots, and do the workers reach the broker? cqrs doctor, and Spark's log",
            )


class UnownedPlaces:
    """Measures how long each partition has had no owner. Each loss of an owner starts a new timeout."""

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout, self._clock = timeout, clock
        self._since: dict[str, float] = {}

    def restart(self) -> None:
        """Restart the measurement of all partitions: a task has just been submitted, or Kafka is away."""
        self._since.clear()

    def overdue(self, places: Iterable[str]) -> list[str]:
        """Store the partitions without an owner; return the partitions without an owner for longer than the timeout."""
        now = self._clock()
        self._since = {place: self._since.get(place, now) for place in places}
        return [place for place, since in self._since.items() if now - since > self._timeout]


class _Look(threading.Thread, Generic[_P]):
    """One poll of the progress in a thread of its own: a lost broker may delay it for long, but not the lost tasks."""

    def __init__(self, work: LongWork[Any, _P]) -> None:
        super().__init__(name=f"{work.group} look", daemon=True)
        self._look, self._due = work.look, time.monotonic() + work.timing.look_patience
        self._answer: Callable[[], _P] | None = None
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answer = self._look()
        except Exception as error:
            self._error = error

    def is_late(self) -> bool:
        """Wait for the poll until its deadline. True if the poll has not ended by then; further calls do not wait."""
        self.join(max(0.0, self._due - time.monotonic()))
        return self.is_alive()

    def progress(self) -> _P:
        """Store and return the result of a poll that has ended; raises the poll's error, such as `UnavailableError`."""
        if self._answer is None:
            assert self._error is not None, "it has not ended"
            raise self._error
        return self._answer()


def _found(look: _Look[_P], note: Callable[[str], None]) -> _P | None:
    """Return the progress from a poll; None if there was no answer."""
    try:
        return look.progress()
    except UnavailableError as error:
        note(error.message)
        return None
