"""The driver of long-lived tasks: it watches them until they are done."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.crew import Crew
from cqrs_cli.jobs.engine.long_job import LongWork
from cqrs_cli.jobs.engine.partition_job import PartitionResult

if TYPE_CHECKING:
    from pyspark import SparkContext

_R = TypeVar("_R", bound=PartitionResult)
_P = TypeVar("_P")


def run_crew(context: "SparkContext", work: LongWork[_R, _P], tasks: int, note: Callable[[str], None]) -> _P:
    """Do the work with so many tasks to its end, or for ever; returns how far it came.

    Raises the error that ended it: of one of its owners, or `UnavailableError` for places that nobody owns.
    """
    crew = Crew(context, work, note)
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
                work.show(work.look()())  # what was done until the very end
        raise


def _watch(crew: Crew[_R, _P], work: LongWork[_R, _P], note: Callable[[str], None]) -> None:
    """Watch until all tasks have ended: show progress; end the run when it is over, or a place has no owner."""
    patience = work.timing.claim_deadline
    deadline = time.monotonic() + patience
    ending = False
    look: _Look[_P] | None = None
    while crew.is_at_work():
        crew.wait(work.timing.progress_interval)
        crew.is_finished = crew.is_finished or work.is_over(crew.results())
        crew.submit_due()
        lost, look = crew.lost(), look or _Look(work)
        if look.is_late():
            progress, lost = None, crew.lost()  # judged by the look before
        else:
            progress, look = _found(look, note), None
        for member in lost:
            crew.pause(member)
        if progress is None:
            deadline = max(deadline, time.monotonic() + patience)  # nobody can claim meanwhile
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
            deadline = max(deadline, time.monotonic() + patience)
        if (missing := work.unowned(progress)) and time.monotonic() > deadline:
            raise UnavailableError(
                f"nobody owns {', '.join(missing)} after {patience:.0f} s",
                "are there enough task slots, and do the workers reach the broker? cqrs doctor, and Spark's log",
            )


class _Look(threading.Thread, Generic[_P]):
    """One look at the progress, in a thread of its own: it may wait long for a lost broker, and lost tasks may not."""

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
        """Wait for its end. True if it has not ended when its time is over: from then on it is not waited for."""
        self.join(max(0.0, self._due - time.monotonic()))
        return self.is_alive()

    def progress(self) -> _P:
        """Note what it found, once it has ended; raises what it met: `UnavailableError` if nobody answered."""
        if self._answer is None:
            assert self._error is not None, "it has not ended"
            raise self._error
        return self._answer()


def _found(look: _Look[_P], note: Callable[[str], None]) -> _P | None:
    """The progress that a look found; None if nobody answered."""
    try:
        return look.progress()
    except UnavailableError as error:
        note(error.message)
        return None
