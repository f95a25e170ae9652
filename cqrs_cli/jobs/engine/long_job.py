"""The driver of long-running work: one Spark job of long-lived tasks, submitted again when one is lost, and watched.

Progress does not come through Spark, which hears of a task only when it ends.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.partition_job import PartitionResult, collector
from cqrs_cli.ownership.timing import Timing

if TYPE_CHECKING:
    from pyspark import SparkContext, SparkStageInfo
    from pyspark.accumulators import Accumulator

#: Submissions in a row that got no further, after which the run ends: it is not the machine, it is us.
FUTILE = 5


_R = TypeVar("_R", bound=PartitionResult)  # how a partition's owner ended
_P = TypeVar("_P")

#: The function that Spark runs on a worker: the number of the task in, nothing of interest out.
Task = Callable[[int, Iterable[int]], Iterator[int]]


class LongWork(ABC, Generic[_R, _P]):
    """The work of long-lived tasks, and how far it is, as the driver asks."""

    group: ClassVar[str]  # of Spark's job
    kind: type[_R]

    def __init__(self, title: str, tasks: int, timing: Timing, endless: bool) -> None:
        self.title, self.tasks, self.timing, self.endless = title, tasks, timing, endless

    @abstractmethod
    def task(self, submission: int, results: "Accumulator[dict[int, _R]]") -> Task:
        """The function of a task of this submission, which adds the ends of its owners to the results.

        The claims of submissions before do not count from now on.
        """

    @abstractmethod
    def look(self) -> _P:
        """The progress now; raises `UnavailableError` if nobody answers."""

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
    def has_moved(self) -> bool:
        """True if the present submission got further than the one before."""

    def suspicions(self) -> Iterable[str]:
        """The records on which workers may be dying. No task runs."""
        return ()

    @abstractmethod
    def end(self, job: "LongJob[_R]") -> None:
        """It is over, so all tasks shall end: the others end by themselves, or are cancelled. Also called last."""

    @abstractmethod
    def stop(self, job: "LongJob[_R] | None") -> bool:
        """End everything, after an error or Ctrl-C. False if nobody can be asked how far it came."""

    @abstractmethod
    def ended(self, results: Sequence[_R]) -> _P:
        """How far it came; tells the notes that were not told yet. Raises the gravest error of its owners."""


class LongJob(threading.Thread, Generic[_R]):
    """One submission, in a thread of its own; the driver watches."""

    def __init__(self, context: "SparkContext", work: LongWork[_R, Any], submission: int) -> None:
        super().__init__(name=f"{work.group} {submission}", daemon=True)
        self.error: Exception | None = None
        self._context, self._group, self._tasks = context, work.group, work.tasks
        self._title = f"{work.title}, submission {submission}"
        self._results = collector(context, work.kind)
        self._task = work.task(submission, self._results)
        self.start()

    def run(self) -> None:
        context, tasks = self._context, self._tasks
        try:
            context.setJobGroup(self._group, self._title, interruptOnCancel=True)
            context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(self._task).count()
        except Exception as error:  # py4j wraps whatever Spark says: a lost task, a cancelled job
            self.error = error

    def results(self) -> list[_R]:
        """The ends of owners whose task has ended, by partition."""
        return [result for _, result in sorted(self._results.value.items())]

    def waits_for_a_slot(self) -> bool:
        """True if a task waits for a slot: a lost worker leaves fewer slots than tasks, which never end."""
        return any(
            stage.numActiveTasks + stage.numCompletedTasks < stage.numTasks for stage in self._stages()
        )

    def _stages(self) -> "Iterator[SparkStageInfo]":
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None and info.status == "RUNNING" else ():
                known = tracker.getStageInfo(stage)
                if known is not None:
                    yield known

    def cancel(self) -> None:
        """End what still runs: a batch under way is not committed."""
        if self.is_alive() and not jvm.is_gone(self._context):
            self._context.cancelJobGroup(self._group)
        self.join(10.0)


def run_long_job(context: "SparkContext", work: LongWork[_R, _P], note: Callable[[str], None]) -> _P:
    """Do the work to its end, or for ever; returns how far it came.

    Raises the error that ended it: of one of its owners, or `UnavailableError` for places that nobody owns.
    """
    timing = work.timing
    backoff, futile, submission = timing.first_backoff, 0, 0
    job: LongJob[_R] | None = None
    try:
        while True:
            job = LongJob(context, work, submission)
            _watch(job, work, note)
            results = job.results()
            if job.error is None or any(result.error for result in results):
                done = work.ended(results)
                work.end(job)
                return done
            if jvm.is_gone(context, within=1.0):
                raise job.error
            futile = 0 if work.has_moved() else futile + 1
            if futile >= FUTILE:
                raise CqrsError(
                    f"the tasks were lost {FUTILE} times in a row ({first_line(job.error)})", "see the log"
                )
            note(f"a task was lost ({first_line(job.error)}); submitting again in {backoff:g} s")
            suspected = list(work.suspicions())
            for text in suspected:
                note(text)
            time.sleep(backoff)
            backoff = (
                min(backoff * 2, timing.longest_backoff) if suspected or futile else timing.first_backoff
            )
            submission += 1
    except Exception as error:
        work.stop(job)
        if jvm.is_gone(context):
            raise CqrsError(
                "Spark's JVM is gone, and its tasks with it", "see the log, then start again"
            ) from error
        raise
    except BaseException:
        if work.stop(job):
            with suppress(UnavailableError):
                work.show(work.look())  # what was done until the very end
        raise


def _watch(job: LongJob[_R], work: LongWork[_R, Any], note: Callable[[str], None]) -> None:
    """Watch until the job ends: show progress; end the run when it is over, or a place has no owner."""
    patience = work.timing.claim_deadline
    slotless = time.monotonic()
    deadline = slotless + patience
    ending = False
    while job.is_alive():
        job.join(work.timing.progress_interval)
        try:
            progress = work.look()
        except UnavailableError as error:
            note(error.message)
            deadline = max(deadline, time.monotonic() + patience)  # nobody can claim meanwhile
            continue
        work.show(progress)
        for text in work.fresh_notes():
            note(text)
        if not ending and work.is_over(job.results()):
            ending = True
            work.end(job)
        if ending:
            continue
        work.check()
        if not work.endless or not job.waits_for_a_slot():
            slotless = time.monotonic()
        elif time.monotonic() - slotless > patience:
            raise UnavailableError(
                f"a task has found no slot for {patience:.0f} s: its partitions have no owner",
                "a worker was lost: bring it back, or start again with the slots there are",
            )
        if work.needs_time():
            deadline = max(deadline, time.monotonic() + patience)
        if (missing := work.unowned(progress)) and time.monotonic() > deadline:
            raise UnavailableError(
                f"nobody owns {', '.join(missing)} after {patience:.0f} s",
                "are there enough task slots, and do the workers reach the broker? cqrs doctor, and Spark's log",
            )


def first_line(error: Any) -> str:
    """The first line of an error's words, of Spark's own message if it has one."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    return text.splitlines()[0][:200] if text else type(error).__name__
