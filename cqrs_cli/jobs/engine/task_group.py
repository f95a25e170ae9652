"""The group of a run's long-running tasks. It resubmits lost tasks, and moves partitions to new slots and away from
drained executors, when `watch` calls it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.formatting import counted
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.long_job import LongJob, LongWork, cancel_all
from cqrs_cli.jobs.engine.partition_job import PartitionResult
from cqrs_cli.jobs.engine.slots import Slots, current_slots
from cqrs_cli.ownership.assignment import Assignment, assign_partitions, rebalance

if TYPE_CHECKING:
    from pyspark import SparkContext

#: The run gives up when a task was lost this many times in a row without progress: then the cause is a bug, not the
#: machine.
MAX_FUTILE_LOSSES = 5

#: A part of Spark's message for a job that ends because the JVM exits.
_SHUT_DOWN = "SparkContext was shut down"

_Result = TypeVar("_Result", bound=PartitionResult)
_Progress = TypeVar("_Progress")


@dataclass(slots=True, eq=False)
class _Task(Generic[_Result]):
    """A task: the partitions that it owns, and the Spark job of its latest submission."""

    partitions: Assignment
    job: LongJob[_Result]
    futile_losses: int = 0  # number of losses in a row without progress
    backoff: float = 0.0  # seconds between the last loss and the resubmission
    #: Time of the scheduled resubmission by the monotonic clock; None if none is scheduled.
    resubmit_at: float | None = None


class TaskGroup(Generic[_Result, _Progress]):
    """The tasks of one run, at most one task for each slot."""

    def __init__(
        self, context: "SparkContext", work: LongWork[_Result, _Progress], report: Callable[[str], None]
    ) -> None:
        self._context, self._work, self._report = context, work, report
        self._tasks: list[_Task[_Result]] = []
        # Jobs that still run although all their partitions were assigned to other tasks.
        self._outgoing_jobs: list[LongJob[_Result]] = []
        self._submission = -1
        self.is_finished = False  # True once the work is over: no task is resubmitted
        self._task_ended = threading.Event()
        # Times by the monotonic clock: of the last poll of the cluster's slots, and when all tasks last had a slot.
        self._last_poll_at = time.monotonic()
        self._all_had_slots_at = time.monotonic()

    @property
    def jobs(self) -> list[LongJob[_Result]]:
        return [*(task.job for task in self._tasks), *self._outgoing_jobs]

    def submit_tasks(self, task_count: int) -> None:
        """Assign all partitions to `task_count` new tasks, and submit the tasks. All earlier tasks must have ended."""
        self._submission += 1
        self._tasks, self._outgoing_jobs = [], []
        for partitions in assign_partitions(self._work.partition_count, task_count):
            self._work.record_submission(partitions, self._submission)
            self._tasks.append(_Task(partitions, self._submit_job(partitions)))
        self._all_had_slots_at = time.monotonic()

    def _submit_job(self, partitions: Assignment) -> LongJob[_Result]:
        return LongJob(self._context, self._work, partitions, self._submission, self._task_ended)

    def is_running(self) -> bool:
        jobs = [task.job for task in self._tasks]
        return any(job.is_alive() or (job.error and not self.is_finished) for job in jobs)

    def wait(self, seconds: float) -> None:
        """Wait until a task ends or is due for resubmission, for at most `seconds`."""
        timeout = seconds
        for task in () if self.is_finished else self._tasks:
            if task.resubmit_at is not None:
                timeout = min(timeout, task.resubmit_at - time.monotonic())
        self._task_ended.wait(max(0.0, timeout))
        self._task_ended.clear()

    def results(self) -> list[_Result]:
        """Return the results of the owners whose task has ended, by ascending partition. A partition that moved has the
        result of its last owner.
        """
        results = {
            partition: result
            for task in self._tasks
            for partition, result in task.job.results().items()
            if partition in task.partitions
        }
        return [result for _, result in sorted(results.items())]

    def resubmit_due_tasks(self) -> list[Assignment]:
        """Resubmit the lost tasks whose backoff is over; return the partitions of each."""
        due_tasks = [
            task
            for task in self._tasks
            if task.resubmit_at is not None and task.resubmit_at <= time.monotonic()
        ]
        for task in () if self.is_finished else due_tasks:
            task.resubmit_at = None
            self._submission += 1
            self._work.record_submission(task.partitions, self._submission)
            task.job = self._submit_job(task.partitions)
        return [task.partitions for task in due_tasks]

    def interrupt_silent_tasks(self) -> None:
        """Interrupt the tasks whose worker must be dead although Spark has not noticed: they then count as lost tasks,
        and are resubmitted.
        """
        for task in self._tasks:
            if task.job.is_alive() and not task.job.is_interrupted and self._work.is_silent(task.partitions):
                self._report("a task has sent no report for too long: restarting it")
                task.job.interrupt()

    def lost_tasks(self) -> list[_Task[_Result]]:
        """Return the lost tasks whose resubmission is not scheduled yet."""
        return [
            task
            for task in self._tasks
            if task.job.error and task.resubmit_at is None and not self.is_finished
        ]

    def schedule_resubmission(self, task: _Task[_Result]) -> None:
        """Schedule the resubmission of a lost task, after a backoff. A loss is futile if the task had made no progress
        by the last poll. The backoff doubles after a futile loss, and while a record is suspected of killing workers.

        Raises the task's error if the JVM has exited, and `CqrsError` after `MAX_FUTILE_LOSSES` futile
        losses in a row.
        """
        work, timing, error = self._work, self._work.timing, task.job.error
        assert error is not None, "the task was not lost"
        if _has_jvm_exited(self._context, error):
            raise error
        task.futile_losses = 0 if work.made_progress(task.partitions) else task.futile_losses + 1
        if task.futile_losses >= MAX_FUTILE_LOSSES:
            raise CqrsError(
                f"a task was lost {MAX_FUTILE_LOSSES} times in a row ({first_line(error)})", "see the log"
            )
        suspects = list(work.describe_suspects(task.partitions))
        next_backoff = min(task.backoff * 2, timing.longest_backoff)
        task.backoff = (
            next_backoff if task.backoff and (suspects or task.futile_losses) else timing.first_backoff
        )
        self._report(f"a task was lost ({first_line(error)}); resubmitting in {task.backoff:g} s")
        for text in suspects:
            self._report(text)
        task.resubmit_at = time.monotonic() + task.backoff

    def rebalance(self) -> None:
        """Adapt the tasks to the cluster's slots. If slots are free, assign partitions to additional tasks. If for some
        time there have been fewer slots than tasks, restart all partitions with one task for each slot.

        Raises `UnavailableError` if a task has found no slot within `claim_deadline`.
        """
        now, timing, task_count = time.monotonic(), self._work.timing, len(self._tasks)
        if now - self._last_poll_at < timing.slot_check_interval:
            return
        self._last_poll_at = now
        cluster_slots = current_slots(self._context)
        slot_count = cluster_slots.slots
        all_have_slots = cluster_slots.busy >= sum(job.is_alive() for job in self.jobs)
        if all_have_slots and (not slot_count or self._reassign_partitions(cluster_slots)):
            self._all_had_slots_at = now
        elif 0 < slot_count < task_count and now - self._all_had_slots_at > (
            timing.drain_timeout if all_have_slots else timing.slot_timeout
        ):
            self._report(
                f"{task_count} tasks have {counted(slot_count, 'slot')}: restarting with {slot_count}"
            )
            cancel_all(self.jobs)
            self.submit_tasks(slot_count)
        elif not all_have_slots and now - self._all_had_slots_at > timing.claim_deadline:
            raise UnavailableError(
                f"a task has found no slot for {timing.claim_deadline:.0f} s: its partitions have no owner",
                "a worker was lost: bring it back, or restart the run with the available slots",
            )

    def _reassign_partitions(self, cluster_slots: Slots) -> bool:
        """Assign partitions to additional tasks in free slots; the new owners take the partitions over from the running
        owners.

        Return False if tasks stay on drained executors because no slot is free.
        """
        if not self._work.can_reassign:
            return True
        drained_tasks = (
            [task for task in self._tasks if cluster_slots.drained & task.job.executors()]
            if cluster_slots.drained
            else []
        )
        remaining_tasks = [task for task in self._tasks if task not in drained_tasks]
        free_slots = max(0, cluster_slots.slots - len(remaining_tasks))
        new_assignments = rebalance(
            [task.partitions for task in remaining_tasks],
            free_slots,
            [task.partitions for task in drained_tasks],
        )
        if not new_assignments:
            return not drained_tasks
        moved_partitions = {partition for assignment in new_assignments for partition in assignment}
        count = counted(len(moved_partitions), "partition")
        if drained_tasks:
            self._report(f"an executor is drained: moving {count} away")
        else:
            target = "it" if free_slots == 1 else "them"
            self._report(f"{counted(free_slots, 'more slot')}: moving {count} to {target}")
        self._submission += 1
        for task in self._tasks:
            task.partitions = tuple(
                partition for partition in task.partitions if partition not in moved_partitions
            )
        self._outgoing_jobs = [
            *(job for job in self._outgoing_jobs if job.is_alive()),
            *(task.job for task in drained_tasks),
        ]
        self._tasks = [
            *remaining_tasks,
            *(_Task(assignment, self._submit_job(assignment)) for assignment in new_assignments),
        ]
        return True


def _has_jvm_exited(context: "SparkContext", error: Exception) -> bool:
    """Return True if the JVM has exited, or exits within a second.

    `error`: the error of a lost task. If the JVM itself reported it, the JVM is alive, and the function does not wait.
    """
    jvm_reported = getattr(error, "java_exception", None) is not None and _SHUT_DOWN not in first_line(error)
    return not jvm_reported and jvm.has_exited(context, timeout=1.0)


def first_line(error: Any) -> str:
    """Return the first line of an error's message; for an error of py4j, of the message of the Java exception in it."""
    java_exception = getattr(error, "java_exception", None)
    text = str(java_exception.getMessage() if java_exception is not None else error)
    return text.splitlines()[0][:200] if text else type(error).__name__
