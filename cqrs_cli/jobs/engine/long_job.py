"""Long-running tasks on Spark, such as the tasks of a run. `task_group` submits them.

Each task is a Spark job of its own. Otherwise the loss of one task would make Spark end the other tasks of its job.

Progress reports bypass Spark, which reports on a task only when the task ends.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.partition_job import PartitionResult, result_accumulator
from cqrs_cli.jobs.engine.slots import executors_of
from cqrs_cli.ownership.assignment import Assignment
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.system.concurrent_calls import call_concurrently

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Seconds to wait until a cancelled job has ended.
CANCEL_TIMEOUT = 10.0

_Result = TypeVar("_Result", bound=PartitionResult)  # the result of a partition's owner
_Progress = TypeVar("_Progress")

#: The function that Spark runs on a worker. Spark requires the arguments (index of the RDD's partition, its elements)
#: and the result, but they have no meaning here.
Task = Callable[[int, Iterable[int]], Iterator[int]]


class LongWork(ABC, Generic[_Result, _Progress]):
    """The work that long-running tasks do, such as a run. The driver calls the methods.

    The work divides into partitions, numbered from 0. A task gets an `Assignment`: the numbers of its partitions.
    """

    group: ClassVar[str]  # prefix of the names of Spark's job groups
    result_type: type[_Result]
    #: True if an additional task may take over partitions from a running task.
    can_reassign: ClassVar[bool] = False

    def __init__(self, title: str, partition_count: int, timing: Timing, is_endless: bool) -> None:
        """`title`: the work's name in Spark's web UI. `is_endless`: the tasks run until they are stopped."""
        self.title, self.partition_count = title, partition_count
        self.timing, self.is_endless = timing, is_endless

    @abstractmethod
    def task(
        self, partitions: Assignment, submission: int, results: "Accumulator[dict[int, _Result]]"
    ) -> Task:
        """Return the function of a task that owns these partitions, and adds each partition's result to `results`.

        `submission`: the number of the submission, which increases during the run.
        """

    def record_submission(self, partitions: Assignment, submission: int) -> None:
        """Record that a task with these partitions is submitted: claims from its earlier submissions no longer count
        as progress.
        """
        return

    @abstractmethod
    def poll_progress(self) -> Callable[[], _Progress]:
        """Request the progress. May be called in any thread, so it stores nothing: it returns a function that stores
        the answer and returns the progress, which the driver calls in its own thread.

        Raises `UnavailableError` if there is no answer.
        """

    @abstractmethod
    def show(self, progress: _Progress) -> None:
        """Display the progress."""

    @abstractmethod
    def new_messages(self) -> Iterable[str]:
        """Return the messages of the tasks for the user since the last call."""

    def check_topics(self) -> None:
        """Raise the error that ends the work if a topic was deleted or got partitions: the tasks cannot detect this."""
        return

    def is_over(self, results: Sequence[_Result]) -> bool:
        """True if these results of owners end the work."""
        return any(self.is_endless or result.error for result in results)

    def partition_names(self, partitions: Assignment) -> Sequence[str]:
        """Return the names of these partitions, as `unowned_partitions` returns them."""
        return ()

    def unowned_partitions(self, progress: _Progress) -> Sequence[str]:
        """Return the names of the partitions that had no owner at the time of `progress`."""
        return ()

    def is_silent(self, partitions: Assignment) -> bool:
        """True if the worker of these partitions has sent no report for so long that it must be dead."""
        return False

    def is_rebuilding(self) -> bool:
        """True while an owner rebuilds its shard before it claims the partition, which may take minutes."""
        return False

    @abstractmethod
    def made_progress(self, partitions: Assignment) -> bool:
        """True if the lost task of these partitions had made progress by the last poll."""

    def describe_suspects(self, partitions: Assignment) -> Iterable[str]:
        """Return a text about each suspect in these partitions: a record that may kill the worker which decides it."""
        return ()

    @abstractmethod
    def stop_tasks(self, jobs: "Sequence[LongJob[_Result]]") -> None:
        """Let all tasks return, or cancel them, because the work is over. Idempotent: it is called again after the last
        task has ended.
        """

    @abstractmethod
    def abort_tasks(self, jobs: "Sequence[LongJob[_Result]]") -> bool:
        """Stop all tasks after an error or Ctrl-C. Return False if the progress can no longer be polled."""

    @abstractmethod
    def final_progress(self, results: Sequence[_Result]) -> _Progress:
        """Report the messages that were not reported yet, and return the final progress.

        Raises the gravest error of the owners.
        """


class LongJob(threading.Thread, Generic[_Result]):
    """One submission of one task: a Spark job. Its thread waits for the job's end, then sets the event `job_ended`."""

    def __init__(
        self,
        context: "SparkContext",
        work: LongWork[_Result, Any],
        partitions: Assignment,
        submission: int,
        job_ended: threading.Event,
    ) -> None:
        name = f"{work.group} {submission}.{partitions[0]}"
        super().__init__(name=name, daemon=True)
        self.error: Exception | None = None
        self.is_interrupted = False
        self._context, self._group, self._job_ended = context, name, job_ended
        self._title = f"{work.title}, submission {submission}"
        self._results = result_accumulator(context, work.result_type)
        self._task = work.task(partitions, submission, self._results)
        self.start()

    def run(self) -> None:
        context = self._context
        try:
            context.setJobGroup(self._group, self._title, interruptOnCancel=True)
            context.parallelize([0], 1).mapPartitionsWithIndex(self._task).count()
        except Exception as error:  # py4j wraps every error of Spark: a lost task, a cancelled job
            self.error = error
        self._job_ended.set()

    def results(self) -> dict[int, _Result]:
        """Return partition → result of its owner; empty until the task has ended."""
        return dict(self._results.value)

    def executors(self) -> set[str]:
        """Return the ids of the executors on which the job runs now."""
        return executors_of(self._context, self._group)

    def cancel(self) -> None:
        """Cancel the job, and wait for its end, at most `CANCEL_TIMEOUT`. A batch in progress is not committed."""
        self.interrupt()
        self.join(CANCEL_TIMEOUT)

    def interrupt(self) -> None:
        """Cancel the job, without waiting for its end."""
        self.is_interrupted = True
        if self.is_alive() and not jvm.has_exited(self._context):
            self._context.cancelJobGroup(self._group)


def cancel_all(jobs: Sequence[LongJob[Any]]) -> None:
    """Cancel these jobs at the same time, and wait for their ends, at most `2 * CANCEL_TIMEOUT`: the JVM may not
    answer.
    """
    call_concurrently([job.cancel for job in jobs], 2 * CANCEL_TIMEOUT, workers=len(jobs))
