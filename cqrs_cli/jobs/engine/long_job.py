"""Long-lived tasks, each one Spark job: Spark ends a whole job with one of its tasks, and a task that is lost must not
end its neighbours. `crew` drives them.

Progress does not come through Spark, which hears of a task only when it ends.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.partition_job import PartitionResult, collector
from cqrs_cli.jobs.engine.slots import executors_of
from cqrs_cli.ownership.dealing import Share
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.system.together import call_together

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Seconds that a job which was cancelled has to end.
CANCELLED = 10.0

_R = TypeVar("_R", bound=PartitionResult)  # how a place's owner ended
_P = TypeVar("_P")

#: The function that Spark runs on a worker: what it gives is of no interest.
Task = Callable[[int, Iterable[int]], Iterator[int]]


class LongWork(ABC, Generic[_R, _P]):
    """The work of long-lived tasks, and how far it is, as the driver asks. Its places are numbered from 0."""

    group: ClassVar[str]  # of Spark's jobs
    kind: type[_R]
    movable: ClassVar[bool] = False  # whether a further task takes a place over from one that is at work

    def __init__(self, title: str, places: int, timing: Timing, endless: bool) -> None:
        self.title, self.places, self.timing, self.endless = title, places, timing, endless

    @abstractmethod
    def task(self, share: Share, submission: int, results: "Accumulator[dict[int, _R]]") -> Task:
        """The function of a task that owns these places, and adds the end of each to the results."""

    def begin(self, share: Share, submission: int) -> None:
        """Nobody owns these places: what owners before this submission have claimed does not count from now on."""
        return

    @abstractmethod
    def look(self) -> Callable[[], _P]:
        """Ask how far it is, in any thread. What it returns notes the answer, in the driver's, and gives the progress.

        Raises `UnavailableError` if nobody answers.
        """

    @abstractmethod
    def show(self, progress: _P) -> None:
        """Show it."""

    @abstractmethod
    def fresh_notes(self) -> Iterable[str]:
        """The notes of the tasks since this was asked last."""

    def check(self) -> None:
        """Raise the error that ends the run, if there is one that its tasks would not see."""
        return

    def is_over(self, results: Sequence[_R]) -> bool:
        """True if these ends of owners are to be the end of all."""
        return any(self.endless or result.error for result in results)

    def unowned(self, progress: _P) -> Sequence[str]:
        """The places that nobody owns."""
        return ()

    def needs_time(self) -> bool:
        """True while owners are busy with something that may take long, before they own their places."""
        return False

    @abstractmethod
    def has_moved(self, share: Share) -> bool:
        """True if the task of these places, which is lost, got further than the one before, as of the last look."""

    def suspicions(self, share: Share) -> Iterable[str]:
        """The records on which the worker of these places may be dying, as of the last look."""
        return ()

    @abstractmethod
    def end(self, jobs: "Sequence[LongJob[_R]]") -> None:
        """It is over, so all tasks shall end: they do by themselves, or are cancelled. Also called last."""

    @abstractmethod
    def stop(self, jobs: "Sequence[LongJob[_R]]") -> bool:
        """End everything, after an error or Ctrl-C. False if nobody can be asked how far it came."""

    @abstractmethod
    def ended(self, results: Sequence[_R]) -> _P:
        """The progress at its end; tells the notes that were not told yet. Raises the gravest error of its owners."""


class LongJob(threading.Thread, Generic[_R]):
    """One submission of one task, in a thread of its own. `woken` is set when it has ended."""

    def __init__(
        self,
        context: "SparkContext",
        work: LongWork[_R, Any],
        share: Share,
        submission: int,
        woken: threading.Event,
    ) -> None:
        name = f"{work.group} {submission}.{share[0]}"
        super().__init__(name=name, daemon=True)
        self.error: Exception | None = None
        self._context, self._group, self._woken = context, name, woken
        self._title = f"{work.title}, submission {submission}"
        self._results = collector(context, work.kind)
        self._task = work.task(share, submission, self._results)
        self.start()

    def run(self) -> None:
        context = self._context
        try:
            context.setJobGroup(self._group, self._title, interruptOnCancel=True)
            context.parallelize([0], 1).mapPartitionsWithIndex(self._task).count()
        except Exception as error:  # py4j wraps whatever Spark says: a lost task, a cancelled job
            self.error = error
        self._woken.set()

    def results(self) -> dict[int, _R]:
        """The ends of its owners by place, once the task has ended."""
        return dict(self._results.value)

    def executors(self) -> set[str]:
        """The executors on which it runs now."""
        return executors_of(self._context, self._group)

    def cancel(self) -> None:
        """End it: a batch under way is not committed."""
        if self.is_alive() and not jvm.is_gone(self._context):
            self._context.cancelJobGroup(self._group)
        self.join(CANCELLED)


def cancel_all(jobs: Sequence[LongJob[Any]]) -> None:
    """Cancel these jobs at once; a JVM that does not answer is not waited for."""
    call_together([job.cancel for job in jobs], 2 * CANCELLED, workers=len(jobs))
