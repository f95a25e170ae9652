"""The driver of a run, with a fake Spark whose submissions a test defines."""

import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.runs.snapshot import Snapshot
from tests.support.owners import run_plan_task

Task = Callable[[Plan], Iterable[OwnerResult]]


class JavaList(list[SimpleNamespace]):
    """A list with the methods of the lists in the JVM's status store."""

    def size(self) -> int:
        return len(self)

    def apply(self, number: int) -> SimpleNamespace:
        return self[number]


class FakeSparkContext:
    """A fake Spark context.

    Each submission calls the next function of the test; the last function serves all further calls.
    """

    def __init__(self, *task_functions: Task) -> None:
        self.task_functions = list(task_functions)
        self.plans: list[Plan] = []
        self.properties = {"spark.driver.host": "127.0.0.1"}
        self.cancelled = threading.Event()
        self.executors = {"1": 1}  # number of slots by the executor's id
        self.drained: set[str] = set()
        self.executor_listings = 0  # number of times that the executors were listed
        self.running: list[tuple[str, str]] = []  # the job group and the executor of each task
        self._gateway = SimpleNamespace(proc=self)

    def wait(self, timeout: float) -> None:
        raise subprocess.TimeoutExpired("java", timeout)  # the JVM lives

    def setJobGroup(self, *_: object, **__: object) -> None: ...

    def cancelJobGroup(self, _: str) -> None:
        self.cancelled.set()

    def parallelize(self, *_: object) -> "FakeSparkContext":
        return self

    def accumulator(self, value: dict[int, OwnerResult], _: object) -> SimpleNamespace:
        return SimpleNamespace(value=value)

    def mapPartitionsWithIndex(self, function: Any) -> SimpleNamespace:
        plan, *_, results = function.args
        self.plans.append(plan)
        task = self.task_functions[min(len(self.plans), len(self.task_functions)) - 1]

        def count() -> None:
            self.running.append(("", "1"))
            try:
                results.value.update(dict(enumerate(task(plan))))
            finally:
                self.running.pop()

        return SimpleNamespace(count=count)

    @property
    def _jsc(self) -> SimpleNamespace:
        store = SimpleNamespace(executorList=self._list_executors, taskList=self._list_tasks)
        scheduler = SimpleNamespace(isExecutorDecommissioned=self.drained.__contains__)
        return SimpleNamespace(
            sc=lambda: SimpleNamespace(statusStore=lambda: store, taskScheduler=lambda: scheduler)
        )

    def _list_executors(self, _: bool) -> JavaList:
        self.executor_listings += 1
        busy = [executor for _, executor in self.running]
        return JavaList(
            SimpleNamespace(
                id=lambda name=name: name,
                totalCores=lambda slots=slots: slots,
                activeTasks=lambda name=name: busy.count(name),
            )
            for name, slots in self.executors.items()
        )

    def statusTracker(self) -> SimpleNamespace:
        """Return a tracker whose job groups have one job with one stage, all with the same name."""
        return SimpleNamespace(
            getJobIdsForGroup=lambda group: [group],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[job]),
            getStageInfo=lambda _: SimpleNamespace(currentAttemptId=0),
        )

    def _list_tasks(self, stage: str, _: int, __: int) -> JavaList:
        return JavaList(
            SimpleNamespace(executorId=lambda executor=executor: executor, status=lambda: "RUNNING")
            for group, executor in self.running
            if group == stage
        )

    @property
    def _conf(self) -> dict[str, str]:
        return self.properties


def run_driver(
    context: FakeSparkContext,
    plan: Plan,
    notes: list[str] | None = None,
    watch: Callable[[Snapshot], None] = lambda _: None,
    **changes: float,
) -> Snapshot:
    """Run a plan with short pauses, and with the timing of a test."""
    note = (notes if notes is not None else []).append
    timing: dict[str, Any] = {"first_backoff": 0.01, "progress_interval": 0.05, **changes}
    return run_owners(cast(Any, context), replace(plan, timing=Timing(**timing)), 1, watch, note)


def owner_task(plan: Plan) -> Iterable[OwnerResult]:
    return run_plan_task(plan)
