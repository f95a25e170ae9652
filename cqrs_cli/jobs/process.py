"""The driver of `cqrs process`: one Spark job over all partitions of events that the processes hear."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cqrs_cli.following.processes.load import PROCESSES
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessProgress, ProcessResult
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.following.processes.watcher import ProcessWatcher
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.long_job import LongJob, Task, run_long_job
from cqrs_cli.jobs.engine.session import code_root, driver_host
from cqrs_cli.telemetry.notes import TaskNotes

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

_GROUP = "cqrs-process"


def run_processes(
    context: "SparkContext",
    plan: ProcessPlan,
    tasks: int,
    watch: Callable[[ProcessProgress], None],
    note: Callable[[str], None],
) -> ProcessProgress:
    """Own every partition of the plan until its targets are reached, or for ever; returns how far it came.

    Raises the error that ended the run. After any ending the partitions that are still this run's have been fenced.
    """
    with TaskNotes(driver_host(context)) as notes:
        return _run(context, replace(plan, notes=notes.address), tasks, watch, note, notes)


def _run(
    context: "SparkContext",
    plan: ProcessPlan,
    tasks: int,
    watch: Callable[[ProcessProgress], None],
    note: Callable[[str], None],
    notes: TaskNotes,
) -> ProcessProgress:
    watcher = ProcessWatcher(plan)
    names = ", ".join(plan.processes())

    def submit(number: int) -> LongJob[ProcessResult]:
        if number:
            watcher.look()
            for text in watcher.suspicions():
                note(text)
        watcher.begin(number)
        work = partial(_work, replace(plan, submission=number), tasks)
        return LongJob(context, _GROUP, f"cqrs process {names}", tasks, ProcessResult, work)

    def end(job: LongJob[ProcessResult]) -> None:
        """Fence first, so that owners return by themselves; then cancel the tasks that are left."""
        if not job.is_alive():
            return
        retire_processes(plan)
        job.join(plan.timing.quiet_end)
        if job.is_alive() and not jvm.is_gone(context):
            job.cancel()
            retire_processes(plan)  # those that had not claimed yet at the first pass

    try:
        done, results = run_long_job(
            context,
            submit,
            watcher,
            notes.saying(watch, note),
            partial(notes.say_once, note),
            endless=plan.targets is None,
            end=end,
        )
    except BaseException:
        retire_processes(
            plan
        )  # also after a lost task, whose transaction would hide commands until its time is up
        raise
    finally:
        watcher.close()
    return done.ended(results)


def _work(plan: ProcessPlan, tasks: int, results: "Accumulator[dict[int, ProcessResult]]") -> Task:
    return partial(_task, plan, tasks, results)


def _task(
    plan: ProcessPlan,
    tasks: int,
    results: "Accumulator[dict[int, ProcessResult]]",
    number: int,
    _: Iterable[int],
) -> Iterator[int]:
    """The function that Spark runs on a worker."""
    from pyspark import TaskContext

    from cqrs_cli.following.processes.task import react_share

    task = TaskContext.get()
    attempt = task.attemptNumber() if task else 0
    for result in react_share(shipped(plan), plan.share(number, tasks), attempt):
        results.add({plan.subscriptions.index(result.subscription): result})
    yield number


def shipped(plan: ProcessPlan) -> ProcessPlan:
    """In a task: the plan with the places of the code that was shipped to it."""
    return replace(
        plan, root=code_root(PROCESSES, plan.root), aggregates_root=code_root(plan.package, plan.root)
    )
