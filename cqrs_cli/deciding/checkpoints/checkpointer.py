"""Writes the checkpoints of a task's shards, in one child process after another."""

import subprocess
import time
from collections.abc import Callable, Sequence

from cqrs_cli.deciding.checkpoints.child_process import (
    ChildReport,
    WriteRequest,
    kill_child,
    parse_reports,
    start_child,
)
from cqrs_cli.deciding.checkpoints.source import checkpoint_source
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.observer import observing, reached
from cqrs_cli.ownership.timing import Timing

#: Seconds between two checks of the last child process.
_POLL_INTERVAL = 0.1


class Checkpointer:
    """Writes checkpoints of partitions that decide, at the interval in the plan. The caller calls
    `write_due_checkpoints` several times a second.

    The time of the newest checkpoint comes from the store, so restarts of a run do not restart the interval.
    """

    def __init__(self, supervisors: Sequence[DecidingSupervisor]) -> None:
        self._interval = supervisors[0].plan.checkpoint_every if supervisors else 0.0
        self._timing = supervisors[0].timing if supervisors else Timing()
        checkpointed_supervisors = [
            supervisor
            for supervisor in supervisors
            if supervisor.plan.checkpoints and supervisor.plan.store == "lmdb"
        ]
        #: The times of the next checkpoints, monotonic seconds.
        self._due_at = dict.fromkeys(checkpointed_supervisors, 0.0)
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0  # start of the child process, monotonic seconds
        self._failed_supervisors: set[DecidingSupervisor] = set()  # the last checkpoint of each has failed
        self._child_supervisors: list[DecidingSupervisor] = []  # the child process copies their shards

    def write_due_checkpoints(self) -> None:
        """Record the result of a child process that has ended, or start a child process for due checkpoints."""
        if self._child is not None:
            self._poll_child(self._timing.checkpoint_deadline)
            return
        now = time.monotonic()
        due_supervisors = [
            supervisor
            for supervisor, due_at in self._due_at.items()
            if due_at <= now and supervisor.measures.step == "decide"
        ]
        if due_supervisors:
            self._start_child(due_supervisors, self._interval)

    def write_last_checkpoints(self, seconds: float, may_continue: Callable[[], bool]) -> None:
        """Write the last checkpoint of each shard whose owner has ended without an error. Before that, wait for the
        child process that is running.

        The call takes at most `seconds`. It ends earlier when `may_continue`, which is called several times a second,
        returns False. A failure becomes a note in the owner's result.
        """
        supervisors = [
            supervisor
            for supervisor in self._due_at
            if supervisor.error is None
            and supervisor.owner is not None
            and supervisor.owner.session.is_recovered
        ]
        deadline = time.monotonic() + min(seconds, self._timing.checkpoint_deadline)
        for supervisor in supervisors:
            _enter_step(supervisor, "checkpoint")
        if supervisors and self._wait_for_child(deadline, may_continue):
            if time.monotonic() < deadline:
                self._start_child(supervisors, 0.0)
                self._wait_for_child(deadline, may_continue)
            else:
                for supervisor in supervisors:
                    self._report_failure(supervisor, "the previous checkpoint was not ready in time")
        self.close()
        for supervisor in supervisors:
            _enter_step(supervisor, "ended")

    def _start_child(self, supervisors: list[DecidingSupervisor], interval: float) -> None:
        sources = [
            checkpoint_source(supervisor.plan, supervisor.partition, supervisor.aggregate)
            for supervisor in supervisors
        ]
        self._started_at, self._child_supervisors = time.monotonic(), supervisors
        self._child = start_child(WriteRequest(sources, interval))

    def _wait_for_child(self, deadline: float, may_continue: Callable[[], bool]) -> bool:
        """Wait for the child process until `deadline` (monotonic seconds). Return False if `may_continue()` has ended
        the wait.
        """
        while self._child is not None:
            if not may_continue():
                return False
            self._poll_child(max(0.0, deadline - self._started_at))
            time.sleep(_POLL_INTERVAL if self._child is not None else 0.0)
        return True

    def _poll_child(self, time_limit: float) -> None:
        """Record the result of the child process if it has ended; kill it after `time_limit` seconds."""
        assert self._child is not None
        if self._child.poll() is not None:
            text, _ = self._child.communicate()
            self._record_results(text, f"its process ended with code {self._child.returncode}")
        elif (duration := time.monotonic() - self._started_at) > time_limit:
            kill_child(self._child)
            self._record_results(
                b"", f"{self._child_supervisors[0].plan.checkpoints} has taken more than {duration:.0f} s"
            )
        else:
            return
        self._child = None

    def _record_results(self, text: bytes, failure: str) -> None:
        """Compute the times of the next checkpoints from the output of the child process (`text`). `failure`: the error
        of each partition without a report.
        """
        now = time.monotonic()
        for supervisor in self._child_supervisors:
            self._due_at[supervisor] = now + min(self._interval, self._timing.checkpoint_retry)
        reports = {report.source_index: report for report in parse_reports(text)}
        for index, supervisor in enumerate(self._child_supervisors):
            report = reports.get(index, ChildReport(error=failure))
            if report.error:
                self._report_failure(supervisor, report.error)
            else:
                self._failed_supervisors.discard(supervisor)
                age = time.time() - report.written / 1000
                self._due_at[supervisor] = now + (
                    self._interval - age if 0 <= age < self._interval else self._interval
                )

    def _report_failure(self, supervisor: DecidingSupervisor, error: str) -> None:
        """Write every error to the log, but only the first error after a success to the notes."""
        supervisor.report(error, "no checkpoint is written")
        if supervisor not in self._failed_supervisors:
            self._failed_supervisors.add(supervisor)
            supervisor.add_note(f"no checkpoint of {supervisor.log.log_name('commands')} is written: {error}")

    def close(self) -> None:
        """Kill the running child process. This is safe: it writes the manifest last, and a checkpoint without a
        manifest does not count.
        """
        if self._child is not None:
            kill_child(self._child)
            self._child = None


def _enter_step(supervisor: DecidingSupervisor, step: str) -> None:
    with observing(*supervisor.listeners):
        reached("owner.step", step=step)
