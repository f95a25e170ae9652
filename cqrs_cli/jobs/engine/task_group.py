"""The long-running tasks of a run, as `watch` drives them: resubmits lost tasks, and rebalances partitions to slots
that join, and away from executors that are drained.
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
from cqrs_cli.jobs.engine.slots import Slots, slots_now
from cqrs_cli.ownership.assignment import Share, dealt, moved

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Consecutive task failures without progress before the run gives up. So many failures point to a bug, not to the
#: machine.
FUTILE = 5

#: Spark's message for a job that ends with the JVM.
_SHUT_DOWN = "SparkContext was shut down"

_R = TypeVar("_R", bound=PartitionResult)
_P = TypeVar("_P")


@dataclass(slots=True, eq=False)
class _Member(Generic[_R]):
    """A task: the partitions that it owns, and its current job."""

    share: Share
    job: LongJob[_R]
    futile: int = 0
    backoff: float = 0.0
    again: float | None = None  # time of the resubmission, monotonic


class TaskGroup(Generic[_R, _P]):
    """The tasks of one run, at most one task for each slot."""

    def __init__(self, context: "SparkContext", work: LongWork[_R, _P], note: Callable[[str], None]) -> None:
        self._context, self._work, self._note = context, work, note
        self._members: list[_Member[_R]] = []
        self._outgoing: list[LongJob[_R]] = []  # jobs whose partitions have all moved to other tasks
        self._submission = -1
        self.is_finished = False  # True: no task is resubmitted
        self._woken = threading.Event()
        self._waiting = self._looked = time.monotonic()

    @property
    def jobs(self) -> list[LongJob[_R]]:
        return [*(member.job for member in self._members), *self._outgoing]

    def begin(self, tasks: int) -> None:
        """Assign all partitions to this number of new tasks, and submit the tasks; earlier tasks must have ended."""
        self._submission += 1
        self._members, self._outgoing = [], []
        for share in dealt(self._work.places, tasks):
            self._work.begin(share, self._submission)
            self._members.append(_Member(share, self._job(share)))
        self._waiting = time.monotonic()

    def _job(self, share: Share) -> LongJob[_R]:
        return LongJob(self._context, self._work, share, self._submission, self._woken)

    def is_at_work(self) -> bool:
        jobs = [member.job for member in self._members]
        return any(job.is_alive() or (job.error and not self.is_finished) for job in jobs)

    def wait(self, seconds: float) -> None:
        """Wait until a task ends or is due for resubmission, for at most this number of seconds."""
        due = [] if self.is_finished else [one.again for one in self._members if one.again is not None]
        self._woken.wait(max(0.0, min([seconds, *(at - time.monotonic() for at in due)])))
        self._woken.clear()

    def results(self) -> list[_R]:
        """Return the results of owners whose task has ended, in the order of partitions. The result of a partition that
        moved comes from its last task.
        """
        found = {
            place: result
            for member in self._members
            for place, result in member.job.results().items()
            if place in member.share
        }
        return [result for _, result in sorted(found.items())]

    def submit_due(self) -> bool:
        """Resubmit the lost tasks whose pause is over; return True if a pause was over."""
        due = [one for one in self._members if one.again is not None and one.again <= time.monotonic()]
        for member in () if self.is_finished else due:
            member.again = None
            self._submission += 1
            self._work.begin(member.share, self._submission)
            member.job = self._job(member.share)
        return bool(due)

    def lost(self) -> list[_Member[_R]]:
        """Return the lost tasks that have no pause yet."""
        return [one for one in self._members if one.job.error and one.again is None and not self.is_finished]

    def pause(self, member: _Member[_R]) -> None:
        """Schedule the resubmission of a lost task. The pause is longer if the task made no progress, as of the last
        poll.

        Raises the task's error if the JVM has exited, and `CqrsError` after `FUTILE` failures without progress.
        """
        work, timing, error = self._work, self._work.timing, member.job.error
        assert error is not None, "it was not lost"
        if _is_end_of_all(self._context, error):
            raise error
        member.futile = 0 if work.has_moved(member.share) else member.futile + 1
        if member.futile >= FUTILE:
            raise CqrsError(f"a task was lost {FUTILE} times in a row ({first_line(error)})", "see the log")
        suspected = list(work.suspicions(member.share))
        longer = min(member.backoff * 2, timing.longest_backoff)
        member.backoff = longer if member.backoff and (suspected or member.futile) else timing.first_backoff
        self._note(f"a task was lost ({first_line(error)}); submitting again in {member.backoff:g} s")
        for text in suspected:
            self._note(text)
        member.again = time.monotonic() + member.backoff

    def spread(self) -> None:
        """Use the slots of the cluster: free slots take over partitions. If tasks have lost their slots, or wait on
        drained executors, all tasks restart with the slots that are left.

        Raises `UnavailableError` if a task has found no slot within `claim_deadline`.
        """
        now, timing, tasks = time.monotonic(), self._work.timing, len(self._members)
        if now - self._looked < timing.spread_every:
            return
        self._looked = now
        found = slots_now(self._context)
        slots, all_run = found.slots, found.busy >= sum(job.is_alive() for job in self.jobs)
        if all_run and (not slots or self._move(found)):
            self._waiting = now
        elif 0 < slots < tasks and now - self._waiting > (timing.drained if all_run else timing.slotless):
            self._note(f"{tasks} tasks have {counted(slots, 'slot')}: beginning again with {slots}")
            cancel_all(self.jobs)
            self.begin(slots)
        elif not all_run and now - self._waiting > timing.claim_deadline:
            raise UnavailableError(
                f"a task has found no slot for {timing.claim_deadline:.0f} s: its partitions have no owner",
                "a worker was lost: bring it back, or start again with the slots there are",
            )

    def _move(self, found: Slots) -> bool:
        """Assign partitions to additional tasks in free slots; the new owners take over from the running owners.

        Return False if tasks stay on drained executors because no slot is free.
        """
        if not self._work.movable:
            return True
        leaving = (
            [one for one in self._members if found.drained & one.job.executors()] if found.drained else []
        )
        staying = [one for one in self._members if one not in leaving]
        more = max(0, found.slots - len(staying))
        further = moved([one.share for one in staying], more, [one.share for one in leaving])
        if not further:
            return not leaving
        gone = {place for share in further for place in share}
        why = "an executor is drained" if leaving else counted(more, "more slot")
        self._note(f"{why}: {counted(len(gone), 'partition')} move {'away' if leaving else 'there'}")
        self._submission += 1
        for member in self._members:
            member.share = tuple(place for place in member.share if place not in gone)
        self._outgoing = [*(job for job in self._outgoing if job.is_alive()), *(one.job for one in leaving)]
        self._members = [*staying, *(_Member(share, self._job(share)) for share in further)]
        return True


def _is_end_of_all(context: "SparkContext", error: Exception) -> bool:
    """True if the JVM has exited, or exits within a second. A JVM that reports a lost worker is alive, so there is no
    wait for its exit.
    """
    tells = getattr(error, "java_exception", None) is not None and _SHUT_DOWN not in first_line(error)
    return not tells and jvm.is_gone(context, within=1.0)


def first_line(error: Any) -> str:
    """Return the first line of an error's message; for an error from the JVM, of Spark's own message."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    return text.splitlines()[0][:200] if text else type(error).__name__
