"""Writes the checkpoints of a task's shards, in one child process after another."""

import subprocess
import time
from collections.abc import Callable, Sequence

from cqrs_cli.deciding.checkpoints.child_process import (
    Line,
    WriteRequest,
    kill_child,
    parse_lines,
    start_child,
)
from cqrs_cli.deciding.checkpoints.source import checkpoint_source
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.ownership.timing import Timing

#: Seconds between two checks of the last child process.
_LOOK_EVERY = 0.1


class Checkpointer:
    """Writes checkpoints of partitions that decide, at the interval in the plan; `write_due_checkpoints` is to be
    called several times a second.

    The time of the newest checkpoint comes from the store, so restarts of a run do not restart the interval.
    """

    def __init__(self, supervisors: Sequence[DecidingSupervisor]) -> None:
        self._every = supervisors[0].plan.checkpoint_every if supervisors else 0.0
        self._timing = supervisors[0].timing if supervisors else Timing()
        with_any = [one for one in supervisors if one.plan.checkpoints and one.plan.store == "lmdb"]
        self._due = dict.fromkeys(with_any, 0.0)  # monotonic
        self._child: subprocess.Popen[bytes] | None = None
        self._began = 0.0  # start of the child process, monotonic
        self._failing: set[DecidingSupervisor] = set()
        self._written: list[DecidingSupervisor] = []  # whose shards the child process copies

    def write_due_checkpoints(self) -> None:
        """Take the result of a child process that has ended, or start a child process for due checkpoints."""
        if self._child is not None:
            self._poll_child(self._timing.checkpoint_deadline)
            return
        now = time.monotonic()
        due = [one for one, at in self._due.items() if at <= now and one.measures.step == "decide"]
        if due:
            self._start_child(due, self._every)

    def finish(self, seconds: float, meanwhile: Callable[[], bool]) -> None:
        """Write the last checkpoint of each shard whose owner has ended without an error, after the running child
        process.

        It takes at most `seconds`, and ends when `meanwhile`, which is called several times a second, returns False. A
        failure becomes a note in the owner's result.
        """
        last = [
            one
            for one in self._due
            if one.error is None and one.owner is not None and one.owner.session.is_recovered
        ]
        until = time.monotonic() + min(seconds, self._timing.checkpoint_deadline)
        for one in last:
            one.measures.enter_step("checkpoint")
        if last and self._is_free(until, meanwhile):
            if time.monotonic() < until:
                self._start_child(last, 0.0)
                self._is_free(until, meanwhile)
            else:
                for one in last:
                    self._report_failure(one, "the one before it was not ready in time")
        self.close()
        for one in last:
            one.measures.enter_step("ended")

    def _start_child(self, these: list[DecidingSupervisor], every: float) -> None:
        sources = [checkpoint_source(one.plan, one.partition, one.aggregate) for one in these]
        self._began, self._written = time.monotonic(), these
        self._child = start_child(WriteRequest(sources, every))

    def _is_free(self, until: float, meanwhile: Callable[[], bool]) -> bool:
        """Wait for the child process until this time; return False if `meanwhile` has ended the wait."""
        while self._child is not None:
            if not meanwhile():
                return False
            self._poll_child(max(0.0, until - self._began))
            time.sleep(_LOOK_EVERY if self._child is not None else 0.0)
        return True

    def _poll_child(self, longest: float) -> None:
        """Take the result of the child process if it has ended, or kill it if it has taken too long."""
        assert self._child is not None
        if self._child.poll() is not None:
            text, _ = self._child.communicate()
            self._record_results(text, f"its process ended with code {self._child.returncode}")
        elif (took := time.monotonic() - self._began) > longest:
            kill_child(self._child)
            self._record_results(b"", f"{self._written[0].plan.checkpoints} has taken more than {took:.0f} s")
        else:
            return
        self._child = None

    def _record_results(self, text: bytes, failure: str) -> None:
        now = time.monotonic()
        for one in self._written:
            self._due[one] = now + min(self._every, self._timing.checkpoint_retry)
        lines = {line.partition: line for line in parse_lines(text)}
        for number, one in enumerate(self._written):
            told = lines.get(number, Line(error=failure))
            if told.error:
                self._report_failure(one, told.error)
            else:
                self._failing.discard(one)
                age = time.time() - told.written / 1000
                self._due[one] = now + (self._every - age if 0 <= age < self._every else self._every)

    def _report_failure(self, one: DecidingSupervisor, error: str) -> None:
        """Write the error to the log each time, and to the notes once, until a checkpoint succeeds again."""
        one.report(error, "no checkpoint is written")
        if one not in self._failing:
            self._failing.add(one)
            one.notes.append(f"no checkpoint of {one.log.log_name('commands')} is written: {error}")

    def close(self) -> None:
        """Kill the running child process: a checkpoint without a manifest does not count."""
        if self._child is not None:
            kill_child(self._child)
            self._child = None
