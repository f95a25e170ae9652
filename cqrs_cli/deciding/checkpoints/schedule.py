"""The checkpoints that a task writes of its partitions' shards, one process after the other."""

import subprocess
import time
from collections.abc import Callable, Sequence

from cqrs_cli.deciding.checkpoints.child import Line, WriteRequest, leave_child, parse_lines, start_child
from cqrs_cli.deciding.checkpoints.source import checkpoint_source
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.ownership.timing import Timing

#: Seconds between two looks at the last ones.
_LOOK_EVERY = 0.1


class Checkpointer:
    """To be asked several times a second; it writes for partitions that decide, each as often as the plan says.

    The store knows when the newest was written, so that a run that is started often does not begin to count again.
    """

    def __init__(self, supervisors: Sequence[DecidingSupervisor]) -> None:
        self._every = supervisors[0].plan.checkpoint_every if supervisors else 0.0
        self._timing = supervisors[0].timing if supervisors else Timing()
        with_any = [one for one in supervisors if one.plan.checkpoints and one.plan.store == "lmdb"]
        self._due = dict.fromkeys(with_any, 0.0)  # monotonic
        self._child: subprocess.Popen[bytes] | None = None
        self._began = 0.0  # of the child, monotonic
        self._failing: set[DecidingSupervisor] = set()
        self._written: list[DecidingSupervisor] = []  # of whose shards the child writes

    def look(self) -> None:
        """Take the result of what has ended, or begin with what is due."""
        if self._child is not None:
            self._hear(self._timing.checkpoint_deadline)
            return
        now = time.monotonic()
        due = [one for one, at in self._due.items() if at <= now and one.measures.step == "decide"]
        if due:
            self._begin(due, self._every)

    def finish(self, seconds: float, meanwhile: Callable[[], bool]) -> None:
        """Write the last checkpoint of each shard whose owner has ended without an error, after what is under way.

        It takes `seconds` at most, and ends when `meanwhile`, which is called several times a second, returns false.
        What could not be written is a note of the owner's ending.
        """
        last = [
            one
            for one in self._due
            if one.error is None and one.owner is not None and one.owner.session.recovered
        ]
        until = time.monotonic() + min(seconds, self._timing.checkpoint_deadline)
        for one in last:
            one.measures.enter("checkpoint")
        if last and self._is_free(until, meanwhile):
            if time.monotonic() < until:
                self._begin(last, 0.0)
                self._is_free(until, meanwhile)
            else:
                for one in last:
                    self._tell(one, "the one before it was not ready in time")
        self.close()
        for one in last:
            one.measures.enter("ended")

    def _begin(self, these: list[DecidingSupervisor], every: float) -> None:
        sources = [checkpoint_source(one.plan, one.partition, one.aggregate) for one in these]
        self._began, self._written = time.monotonic(), these
        self._child = start_child(WriteRequest(sources, every))

    def _is_free(self, until: float, meanwhile: Callable[[], bool]) -> bool:
        """Wait for the process, until this time; false if `meanwhile` has ended that."""
        while self._child is not None:
            if not meanwhile():
                return False
            self._hear(max(0.0, until - self._began))
            time.sleep(_LOOK_EVERY if self._child is not None else 0.0)
        return True

    def _hear(self, longest: float) -> None:
        """Take the result of the process, if it has ended or has taken too long."""
        assert self._child is not None
        if self._child.poll() is not None:
            text, _ = self._child.communicate()
            self._take(text, f"its process ended with code {self._child.returncode}")
        elif (took := time.monotonic() - self._began) > longest:
            leave_child(self._child)
            self._take(b"", f"{self._written[0].plan.checkpoints} has taken more than {took:.0f} s")
        else:
            return
        self._child = None

    def _take(self, text: bytes, failure: str) -> None:
        now = time.monotonic()
        for one in self._written:
            self._due[one] = now + min(self._every, self._timing.checkpoint_retry)
        lines = {line.partition: line for line in parse_lines(text)}
        for number, one in enumerate(self._written):
            told = lines.get(number, Line(error=failure))
            if told.error:
                self._tell(one, told.error)
            else:
                self._failing.discard(one)
                age = time.time() - told.written / 1000
                self._due[one] = now + (self._every - age if 0 <= age < self._every else self._every)

    def _tell(self, one: DecidingSupervisor, error: str) -> None:
        """In the log each time, to the run once until it succeeds again."""
        one.report(error, "no checkpoint is written")
        if one not in self._failing:
            self._failing.add(one)
            one.notes.append(f"no checkpoint of {one.log.place('commands')} is written: {error}")

    def close(self) -> None:
        """End what is under way: a checkpoint without a manifest is not one."""
        if self._child is not None:
            leave_child(self._child)
            self._child = None
