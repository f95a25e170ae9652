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
from cqrs_cli.runs.task import own_partitions
from tests.support.waiting import eventually

#: Children are forked from a process that has imported all modules and has no threads.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.support.owners", "tests.following.processes.process_harness"])


def run_plan_task(plan: Plan, attempt: int = 0, task: int = 0, tasks: int = 1) -> list[OwnerResult]:
    """Own a task's share of a plan's partitions in this thread until all owners end. Return their results."""
    return [
        report
        for report in own_partitions(plan, plan.partitions()[task::tasks], attempt)
        if isinstance(report, OwnerResult)
    ]


class OwnerThread:
    """The owners of a task's share of a plan's partitions, in a thread. `share` is (task, number of tasks)."""

    def __init__(self, plan: Plan, attempt: int, share: tuple[int, int] = (0, 1)) -> None:
        self.plan = plan
        self.results: list[OwnerResult] = []
        self._thread = threading.Thread(target=self._run, args=(attempt, *share), daemon=True)
        self._thread.start()

    def _run(self, attempt: int, task: int, tasks: int) -> None:
        self.results = run_plan_task(self.plan, attempt, task, tasks)

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def retire(self) -> bool:
        """Retire the run if its owners still work. Return True once they have ended."""
        if not self.has_ended():
            retire(self.plan)
        return self.has_ended()

    def error(self) -> CqrsError | None:
        """Wait for the end, and return the first error."""
        self._thread.join(60)
        assert self.has_ended()
        return next((result.error for result in self.results if result.error), None)

    def notes(self) -> list[str]:
        """Return the notes of owners that have ended."""
        return [note for result in self.results for note in result.notes]


@contextmanager
def running_owners(plan: Plan, attempt: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[OwnerThread]:
    """Run owners while the block lasts."""
    owner = OwnerThread(plan, attempt, share)
    try:
        yield owner
    finally:
        eventually(owner.retire)


@contextmanager
def running_in_thread(run: Callable[[], None], stopping: threading.Event) -> Iterator[None]:
    """Run a supervisor in a thread, and stop it at the end of the block."""
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(60)


@contextmanager
def running_with_reporter(supervisor: Supervisor) -> Iterator[None]:
    """Run a supervisor and its task's reporter until the end of the block."""

    def report() -> None:
        while not supervisor.stopping.wait(0.05):
            supervisor.send_reports()
        supervisor.close_sender()

    with (
        running_in_thread(report, supervisor.stopping),
        running_in_thread(supervisor.run, supervisor.stopping),
    ):
        yield


def run_plan_for_error(plan: Plan, attempt: int = 0) -> CqrsError | None:
    """Run the owners until they end, and return their error. After an error, retire the run as the driver does."""
    error = OwnerThread(plan, attempt).error()
    if error is not None:
        retire(plan)
    return error


def run_plan(plan: Plan) -> None:
    """Run the owners until they end, and raise their error."""
    error = run_plan_for_error(plan)
    if error is not None:
        raise error


class OwnerProcess:
    """An owner in a separate process, which decides small batches and applies them often. `fault` is a failpoint."""

    def __init__(
        self,
        plan: Plan,
        fault: str = "",
        batch_limit: int = 100,
        apply_every: int = 400,
        open_files: tuple[int, int] | None = None,
        **times: Any,
    ) -> None:
        """`times` are values of `Timing` other than the defaults. `open_files` are the soft and the hard limit."""
        timing = Timing(batch_limit=batch_limit, apply_every=apply_every, **times)
        self._pipe, child_pipe = PROCESSES.Pipe(duplex=False)
        arguments = (replace(plan, timing=timing), fault, open_files, child_pipe)
        self._process = PROCESSES.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        child_pipe.close()

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def is_paused(self) -> bool:
        """True while a SIGSTOP pauses it."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def has_ended(self) -> bool:
        return not self._process.is_alive()

    def was_killed(self) -> bool:
        """Wait for the end. True if SIGKILL ended it."""
        self._process.join(60)
        return self._process.exitcode == -signal.SIGKILL

    def exited_by_watchdog(self) -> bool:
        """Wait for the end. True if it ended itself because a call did not return."""
        self._process.join(120)
        return self._process.exitcode == os.EX_SOFTWARE

    def results(self) -> list[OwnerResult] | None:
        """Wait for the end. Return its results, or None if it died."""
        assert self._pipe.poll(120)
        try:
            results: list[OwnerResult] = self._pipe.recv()
        except EOFError:
            results = []
        self._process.join(60)
        return results or None

    def error(self) -> CqrsError | None:
        """Wait for the end, and return the first error."""
        results = self.results()
        assert results is not None
        return next((result.error for result in results if result.error), None)


def _serve(plan: Plan, fault: str, open_files: tuple[int, int] | None, pipe: Pipe) -> None:
    if open_files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
    os.environ[failpoints.VARIABLE] = fault
    pipe.send(list(own_partitions(plan, plan.partitions(), 0)))
