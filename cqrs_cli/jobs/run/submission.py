"""One submission of a run's Spark job: a task for each share of the partitions."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.jobs.process import shipped

if TYPE_CHECKING:
    from pyspark import SparkContext, SparkStageInfo

GROUP = "cqrs-run"


class Submission(threading.Thread):
    """It runs in a thread of its own; the driver watches."""

    def __init__(
        self, context: "SparkContext", plan: Plan, processes: ProcessPlan | None, tasks: int
    ) -> None:
        super().__init__(name=f"submission {plan.submission}", daemon=True)
        self.endings: list[OwnerResult | ProcessResult] = []
        self.error: Exception | None = None
        self._context = context
        self._plan, self._processes = plan, processes
        self._tasks = tasks
        self.start()

    def run(self) -> None:
        context, tasks = self._context, self._tasks
        try:
            context.setJobGroup(
                GROUP, f"cqrs run, submission {self._plan.submission}", interruptOnCancel=True
            )
            numbers = context.parallelize(range(tasks), tasks)
            work = partial(_task, self._plan, self._processes, tasks)
            self.endings = numbers.mapPartitionsWithIndex(work).collect()
        except Exception as error:  # py4j wraps whatever Spark says: a lost task, a cancelled job
            self.error = error

    def a_task_has_ended(self) -> bool:
        """True if one task is done while others run: in a continuous run, the end of it."""
        return any(stage.numCompletedTasks > 0 for stage in self._stages())

    def waits_for_a_slot(self) -> bool:
        """True if a task waits for a slot: a lost worker leaves fewer slots than tasks, which never end."""
        return any(
            stage.numActiveTasks + stage.numCompletedTasks < stage.numTasks for stage in self._stages()
        )

    def _stages(self) -> "Iterator[SparkStageInfo]":
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(GROUP):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None and info.status == "RUNNING" else ():
                known = tracker.getStageInfo(stage)
                if known is not None:
                    yield known


def _task(
    plan: Plan, processes: ProcessPlan | None, tasks: int, number: int, _: Iterator[int]
) -> Iterator[OwnerResult | ProcessResult]:
    """The function that Spark runs on a worker."""
    from pyspark import TaskContext

    from cqrs_cli.runs.task import own

    task = TaskContext.get()
    attempt = task.attemptNumber() if task else 0
    plan = replace(plan, root=code_root(plan.package, plan.root))
    yield from own(plan, number, tasks, attempt, None if processes is None else shipped(processes))
