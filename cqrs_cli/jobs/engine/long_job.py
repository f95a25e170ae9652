"""A Spark job of long-lived tasks: submitted again when a task is lost, and watched until it ends."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.partition_job import PartitionResult, collector, raise_gravest
from cqrs_cli.jobs.engine.session import gave_up

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Lost tasks after which a run ends if it got no further in between: it is not the machine, it is us.
FUTILE_JOBS = 5

#: Seconds between two looks at the progress, and before a lost job comes again.
_LOOK_EVERY = 0.5
_BACKOFF = 1.0


class LongResult(PartitionResult, Protocol):
    """The result of one partition's owner."""

    @property
    def notes(self) -> tuple[str, ...]: ...


class Moving(Protocol):
    """The progress of a job; `position` rises with every batch."""

    @property
    def position(self) -> int: ...


_R = TypeVar("_R", bound=LongResult)
_P = TypeVar("_P", bound=Moving)

#: The function that Spark runs on a worker: the number of the task in, nothing of interest out.
Task = Callable[[int, Iterable[int]], Iterator[int]]


class Watcher(Protocol[_P]):
    """Knows how far a job is."""

    def look(self) -> _P:
        """The progress now; that of the last look if nobody answers."""

    def has_moved(self, before: _P) -> bool:
        """True if the job got further since that look."""

    def check(self) -> None:
        """Raise the error that ends the job, if there is one that its tasks would not see."""


class LongJob(threading.Thread, Generic[_R]):
    """One submission of the job, in a thread of its own; the driver watches."""

    def __init__(
        self,
        context: "SparkContext",
        group: str,
        title: str,
        tasks: int,
        kind: type[_R],
        task: "Callable[[Accumulator[dict[int, _R]]], Task]",
    ) -> None:
        """`task` makes the function of a task, which adds to the results."""
        super().__init__(name=group, daemon=True)
        self.error: Exception | None = None
        self._context, self._group, self._title, self._tasks = context, group, title, tasks
        self._results = collector(context, kind)
        self._task = task(self._results)
        self.start()

    def run(self) -> None:
        context, tasks = self._context, self._tasks
        try:
            context.setJobGroup(self._group, self._title, interruptOnCancel=True)
            context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(self._task).count()
        except Exception as error:  # py4j wraps whatever Spark says: a lost task, a cancelled job
            self.error = error

    def results(self) -> list[_R]:
        """The results of those that have ended."""
        return list(self._results.value.values())

    def cancel(self) -> None:
        """End what still runs: a batch under way is not committed."""
        if self.is_alive():
            if not jvm.is_gone(self._context):
                self._context.cancelJobGroup(self._group)
            self.join(10.0)


def run_long_job(
    context: "SparkContext",
    submit: "Callable[[int], LongJob[_R]]",
    watcher: Watcher[_P],
    watch: Callable[[_P], None],
    note: Callable[[str], None],
    *,
    endless: bool,
    end: "Callable[[LongJob[_R]], None]" = LongJob.cancel,
) -> tuple[_P, list[_R]]:
    """Run the job to its end, or for ever; returns how far it came, and how its partitions ended.

    `submit` starts the submission of this number; `end` ends one. Raises the error that ended the run. Of an `endless`
    job all tasks end with the first.
    """
    futile = submission = 0
    while True:
        began = watcher.look()
        job = submit(submission)
        try:
            while job.is_alive():
                job.join(_LOOK_EVERY)
                watch(watcher.look())
                watcher.check()
                if any(endless or result.error for result in job.results()):
                    break  # one has ended, so all shall
        finally:
            end(job)
        results = job.results()
        for text in dict.fromkeys(text for result in results for text in result.notes):
            note(text)
        raise_gravest(results)
        if job.error is None:
            return watcher.look(), results
        if jvm.is_gone(context, within=1.0):
            raise CqrsError("Spark's JVM is gone, and its tasks with it", "see the log, then start again")
        futile = 0 if watcher.has_moved(began) else futile + 1
        if futile >= FUTILE_JOBS:
            raise gave_up(context, job.error)
        note(f"a task was lost; submitting again in {_BACKOFF:g} s")
        time.sleep(_BACKOFF)
        submission += 1
