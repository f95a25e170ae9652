"""A run in this process, with a fake Spark whose slots come and go."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import TakenOverError
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.ownership.assignment import Assignment
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.runs.task import own_partitions
from tests.support.driver import FakeSparkContext
from tests.support.harness import SHORT_TIMEOUTS
from tests.support.waiting import eventually

_SHORT_TIMEOUTS = replace(
    SHORT_TIMEOUTS,
    first_backoff=0.01,
    progress_interval=0.05,
    slot_check_interval=0.05,
    slot_timeout=0.2,
    drain_timeout=0.2,
)

Owners = Callable[[Plan, Assignment, threading.Event], Iterable[OwnerResult]]


def separate_owner_task(plan: Plan, assignment: Assignment, _: threading.Event) -> Iterable[OwnerResult]:
    """Own partitions as on a separate machine, because a process may open a shard only once."""
    plan = replace(plan, state_dir=plan.state_dir / str(plan.submission))
    return cast(
        Iterable[OwnerResult], own_partitions(plan, [plan.partitions()[number] for number in assignment], 0)
    )


class FakeCluster(FakeSparkContext):
    """A fake Spark context with slots that come and go. A task waits for a free slot.

    A drained executor gets no more tasks. `owners` is called for each task, and ends when the task is cancelled.
    """

    def __init__(self, slots: int, owners: Owners) -> None:
        super().__init__()
        self.executors, self._owners = {"1": slots}, owners
        self._slot_lock = threading.Lock()
        self.started_tasks: list[
            tuple[int, Assignment]
        ] = []  # submission and partitions of each task that ran
        self._thread_local = threading.local()
        self._cancel_events: dict[str, threading.Event] = defaultdict(threading.Event)

    def setJobGroup(self, *arguments: object, **__: object) -> None:
        self._thread_local.group = arguments[0]

    def cancelJobGroup(self, group: str) -> None:
        self._cancel_events[group].set()

    def mapPartitionsWithIndex(self, function: Any) -> SimpleNamespace:
        plan, _, assignment, results = function.args
        group = self._thread_local.group
        cancelled = self._cancel_events[group]

        def count() -> None:
            slot = eventually(lambda: cancelled.is_set() or self._take_slot(group))
            if not isinstance(slot, tuple):
                return
            try:
                self.started_tasks.append((plan.submission, assignment))
                for result in self._owners(plan, assignment, cancelled):
                    results.value[plan.partitions().index(result.partition)] = result
            finally:
                self.running.remove(slot)

        return SimpleNamespace(count=count)

    def _take_slot(self, group: str) -> tuple[str, str] | None:
        """Assign a free slot to a task of the group. Return (group, executor), or None without a free slot."""
        with self._slot_lock:
            busy = [executor for _, executor in self.running]
            for executor, slots in self.executors.items():
                if executor not in self.drained and busy.count(executor) < slots:
                    self.running.append((group, executor))
                    return group, executor
        return None


def retire_run(plan: Plan) -> bool:
    retire(plan)
    return False


@contextmanager
def running_driver(
    context: FakeSparkContext, plan: Plan, tasks: int, notes: list[str], **timing: Any
) -> Iterator["Future[Snapshot]"]:
    """Run a driver with this timing. At the end of the block the run is retired, unless a later run took over."""
    plan = replace(plan, timing=replace(_SHORT_TIMEOUTS, **timing))
    with ThreadPoolExecutor(1) as executor:
        run = executor.submit(run_owners, cast(Any, context), plan, tasks, lambda _: None, notes.append)
        try:
            yield run
        finally:
            eventually(lambda: run.done() or retire_run(plan))
        assert isinstance(run.exception(), TakenOverError | None)
