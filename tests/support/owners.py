"""Owners in tests: in a thread of the test's process, or in a process that dies or stops at a chosen failpoint."""

import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from cqrs_cli import failpoints
from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import CqrsError
from cqrs_cli.ownership.supervisor import Supervisor
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.runs.reporter import Reporter
from cqrs_cli.runs.task import own_partitions
from tests.support.waiting import eventually

#: Children are forked from a process that has imported all modules and has no threads.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.support.owners"])


def owned_here(plan: Plan, attempt: int = 0, task: int = 0, tasks: int = 1) -> list[OwnerResult]:
    """Own a task's share of a plan's partitions in this thread until all owners end. Return their results."""
    return [
        partition
        for partition in own_partitions(plan, plan.partitions()[task::tasks], attempt)
        if isinstance(partition, OwnerResult)
    ]


class Running:
    """The owners of a task's share of a plan's partitions, in a thread. `share` is (task, number of tasks)."""

    def __init__(self, plan: Plan, attempt: int, share: tuple[int, int] = (0, 1)) -> None:
        self.plan = plan
        self.endings: list[OwnerResult] = []
        self._thread = threading.Thread(target=self._run, args=(attempt, *share), daemon=True)
        self._thread.start()

    def _run(self, attempt: int, task: int, tasks: int) -> None:
        self.endings = owned_here(self.plan, attempt, task, tasks)

    def ended(self) -> bool:
        return not self._thread.is_alive()

    def retired(self) -> bool:
        """Retire the run if its owners still work. Return True once they have ended."""
        if not self.ended():
            retire(self.plan)
        return self.ended()

    def error(self) -> CqrsError | None:
        """Wait for the end, and return the first error."""
        self._thread.join(60)
        assert self.ended()
        return next((ending.error for ending in self.endings if ending.error), None)

    def notes(self) -> list[str]:
        """Return the notes of owners that have ended."""
        return [note for ending in self.endings for note in ending.notes]


@contextmanager
def running(plan: Plan, attempt: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Running]:
    """Run owners while the block lasts."""
    owner = Running(plan, attempt, share)
    try:
        yield owner
    finally:
        eventually(owner.retired)


@contextmanager
def at_work(run: Callable[[], None], stopping: threading.Event) -> Iterator[None]:
    """Run a supervisor in a thread, and stop it at the end of the block."""
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(60)


@contextmanager
def reported(supervisor: Supervisor) -> Iterator[None]:
    """Run a supervisor and its task's reporter until the end of the block."""
    reporter = Reporter(supervisor)

    def report() -> None:
        while not supervisor.stopping.wait(0.05):
            reporter.report()
        reporter.close()

    with at_work(report, supervisor.stopping), at_work(supervisor.run, supervisor.stopping):
        yield


def owned(plan: Plan, attempt: int = 0) -> CqrsError | None:
    """Run the owners until they end, and return their error. After an error, retire the run as the driver does."""
    error = Running(plan, attempt).error()
    if error is not None:
        retire(plan)
    return error


def quietly(plan: Plan) -> None:
    """Run the owners until they end, and raise their error."""
    error = owned(plan)
    if error is not None:
        raise error


class Process:
    """An owner in a process of its own, with small batches and changes. `fault` is a failpoint."""

    def __init__(
        self,
        plan: Plan,
        fault: str = "",
        most: int = 100,
        apply_every: int = 400,
        open_files: tuple[int, int] | None = None,
        **times: Any,
    ) -> None:
        """`times` are values of `Timing` other than the defaults. `open_files` are the soft and the hard limit."""
        timing = Timing(batch_limit=most, apply_every=apply_every, **times)
        self._ours, theirs = _PROCESSES.Pipe(duplex=False)
        arguments = (replace(plan, timing=timing), fault, open_files, theirs)
        self._process = _PROCESSES.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def stopped(self) -> bool:
        """True while a SIGSTOP pauses it."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def ended(self) -> bool:
        return not self._process.is_alive()

    def killed(self) -> bool:
        """Wait for the end. True if SIGKILL ended it."""
        self._process.join(60)
        return self._process.exitcode == -signal.SIGKILL

    def lost(self) -> bool:
        """Wait for the end. True if it ended itself because a call did not return."""
        self._process.join(120)
        return self._process.exitcode == os.EX_SOFTWARE

    def endings(self) -> list[OwnerResult] | None:
        """Wait for the end. Return its results, or None if it died."""
        assert self._ours.poll(120)
        try:
            endings: list[OwnerResult] = self._ours.recv()
        except EOFError:
            endings = []
        self._process.join(60)
        return endings or None

    def error(self) -> CqrsError | None:
        """Wait for the end, and return the first error."""
        endings = self.endings()
        assert endings is not None
        return next((ending.error for ending in endings if ending.error), None)


def _serve(plan: Plan, fault: str, open_files: tuple[int, int] | None, pipe: Pipe) -> None:
    if open_files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
    os.environ[failpoints.VARIABLE] = fault
    pipe.send(list(own_partitions(plan, plan.partitions(), 0)))
