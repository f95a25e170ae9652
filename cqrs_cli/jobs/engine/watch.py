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

_Result = TypeVar("_Result", bound=PartitionResult)
_Progress = TypeVar("_Progress")


def run_tasks(
    context: "SparkContext",
    work: LongWork[_Result, _Progress],
    task_count: int,
    report: Callable[[str], None],
) -> _Progress:
    """Run the work with `task_count` tasks to its end; return the final progress.

    Raises the error that ended the work: an owner's error, or `UnavailableError` for partitions without an owner.
    """
    group = TaskGroup(context, work, report)
    try:
        group.submit_tasks(task_count)
        _watch_tasks(group, work, report)
        progress = work.final_progress(group.results())
        work.stop_tasks(group.jobs)
        return progress
    except Exception as error:
        work.abort_tasks(group.jobs)
        if jvm.has_exited(context):
            raise CqrsError(
                "Spark's JVM exited, and its tasks with it", "see the log, then start again"
            ) from error
        raise
    except BaseException:
        if work.abort_tasks(group.jobs):
            with suppress(UnavailableError):
                work.show(work.poll_progress()())  # with the progress since the last poll
        raise


def _watch_tasks(
    group: TaskGroup[_Result, _Progress], work: LongWork[_Result, _Progress], report: Callable[[str], None]
) -> None:
    """Watch the tasks and show the progress until all tasks have ended. Stop the tasks when the work is over.

    Raises `UnavailableError` if a partition has had no owner for too long.
    """
    unowned_partitions = UnownedPartitions(work.timing.claim_deadline)
    is_stopping = False
    poll: _ProgressPoll[_Progress] | None = None
    while group.is_running():
        group.wait(work.timing.progress_interval)
        group.is_finished = group.is_finished or work.is_over(group.results())
        for partitions in group.resubmit_due_tasks():
            unowned_partitions.restart(work.partition_names(partitions))
        lost_tasks, poll = group.lost_tasks(), poll or _ProgressPoll(work)
        if poll.is_late():
            # Lost tasks are resubmitted even if the poll is late: the previous poll shows whether they made progress.
            progress, lost_tasks = None, group.lost_tasks()
        else:
            progress, poll = _polled_progress(poll, report), None
        for task in lost_tasks:
            group.schedule_resubmission(task)
        if progress is None:
            unowned_partitions.restart()  # Kafka does not answer, so no owner can claim a partition
            continue
        work.show(progress)
        for text in work.new_messages():
            report(text)
        if group.is_finished and not is_stopping:
            is_stopping = True
            work.stop_tasks(group.jobs)
        if is_stopping:
            continue
        group.interrupt_silent_tasks()
        work.check_topics()
        if work.is_endless:
            group.rebalance()
        if work.is_rebuilding():
            unowned_partitions.restart()
        if overdue := unowned_partitions.overdue_partitions(work.unowned_partitions(progress)):
            raise UnavailableError(
                f"no owner of {', '.join(overdue)} for {work.timing.claim_deadline:.0f} s",
                "check that there are enough task slots, and that the workers reach the broker: cqrs doctor",
            )


class UnownedPartitions:
    """Measures how long each partition has had no owner, and finds those for which it is longer than `timeout`."""

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout, self._clock = timeout, clock
        self._unowned_since: dict[str, float] = {}  # partition → when it was first seen without an owner

    def restart(self, partitions: Iterable[str] | None = None) -> None:
        """Restart the measurement of these partitions, such as after the submission of their task; None: of all
        partitions.
        """
        for partition in list(self._unowned_since) if partitions is None else partitions:
            self._unowned_since.pop(partition, None)

    def overdue_partitions(self, unowned: Iterable[str]) -> list[str]:
        """Store that exactly the partitions `unowned` have no owner now; return those whose timeout is over."""
        now = self._clock()
        self._unowned_since = {partition: self._unowned_since.get(partition, now) for partition in unowned}
        return [partition for partition, since in self._unowned_since.items() if now - since > self._timeout]


class _ProgressPoll(threading.Thread, Generic[_Progress]):
    """One poll of the progress, in a thread of its own: a lost broker may delay the poll for long, but must not delay
    the resubmission of lost tasks.
    """

    def __init__(self, work: LongWork[Any, _Progress]) -> None:
        super().__init__(name=f"{work.group} poll", daemon=True)
        self._poll, self._deadline = work.poll_progress, time.monotonic() + work.timing.progress_poll_timeout
        self._answer: Callable[[], _Progress] | None = None
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answer = self._poll()
        except Exception as error:
            self._error = error

    def is_late(self) -> bool:
        """Wait for the poll until its deadline, and return True if it has not ended. Later calls do not wait."""
        self.join(max(0.0, self._deadline - time.monotonic()))
        return self.is_alive()

    def progress(self) -> _Progress:
        """Store and return the progress from a poll that has ended; raises the poll's error, such as
        `UnavailableError`.
        """
        if self._answer is None:
            assert self._error is not None, "it has not ended"
            raise self._error
        return self._answer()


def _polled_progress(poll: _ProgressPoll[_Progress], report: Callable[[str], None]) -> _Progress | None:
    """Return the progress from a poll that has ended; None, after a report, if there was no answer."""
    try:
        return poll.progress()
    except UnavailableError as error:
        report(error.message)
        return None
