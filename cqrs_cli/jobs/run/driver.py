"""The driver of `cqrs run`: one Spark job over all partitions of aggregates and processes, submitted again when a task
is lost, and watched.

Progress comes with the claims, not through Spark, whose accumulators arrive only when a task ends.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import CqrsError, TakenOverError, UnavailableError
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.session import driver_host
from cqrs_cli.jobs.run.submission import GROUP, Submission
from cqrs_cli.runs.progress import Progress
from cqrs_cli.runs.reports import Reports
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.runs.takeover import explain_takeovers
from cqrs_cli.telemetry.datagrams import Address

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Submissions in a row that claimed nothing, after which the run ends: it is not the machine, it is us.
FUTILE = 5


def run_owners(
    context: "SparkContext",
    plan: Plan,
    tasks: int,
    watch: Callable[[Snapshot], None],
    note: Callable[[str], None],
    processes: ProcessPlan | None = None,
) -> Snapshot:
    """Own every partition of the plans until `--once` is done, or for ever; return what was decided.

    Raises the error that ended the run: an owner's, or `UnavailableError` for partitions that nobody owns. After any
    ending the partitions that are still this run's have been fenced.
    """
    timing, backoff, futile = plan.timing, plan.timing.first_backoff, 0
    with Reports(driver_host(context)) as reports, Progress(plan, reports, processes) as progress:
        plan, processes = _reporting(plan, processes, reports.address)
        try:
            while True:
                job = Submission(context, plan, processes, tasks)
                _watch(job, plan, processes, progress, watch, note)
                if job.error is None:
                    done = _settled(plan, processes, job.endings, progress, note)
                    _name_hidden(plan, progress, note, patience=0)
                    _retire(plan, processes)
                    return done
                if jvm.is_gone(context, within=1.0):
                    raise job.error
                futile = 0 if progress.claimed() else futile + 1
                if futile >= FUTILE:
                    raise _in_vain(job.error)
                note(f"a task was lost ({_first_line(job.error)}); submitting again in {backoff:g} s")
                again = _tell_trials(progress, note) or futile
                time.sleep(backoff)
                backoff = min(backoff * 2, timing.longest_backoff) if again else timing.first_backoff
                progress.begin(progress.submission + 1)
                plan = replace(plan, submission=progress.submission)
                processes = processes and replace(processes, submission=progress.submission)
        except Exception as error:
            if not jvm.is_gone(context):
                _stop(context, plan, processes, progress, note)
                raise
            _retire(plan, processes)
            raise CqrsError(
                "Spark's JVM is gone, and the owners with it", "see the log, then start again"
            ) from error
        except BaseException:
            _stop(context, plan, processes, progress, note)
            with suppress(UnavailableError):
                watch(progress.look())  # what was decided until the very end
            raise


def _reporting(plan: Plan, processes: ProcessPlan | None, to: Address) -> tuple[Plan, ProcessPlan | None]:
    """The plans, with the address that takes what their owners say."""
    return replace(plan, reports=to), processes and replace(processes, notes=to)


def _watch(
    job: Submission,
    plan: Plan,
    processes: ProcessPlan | None,
    progress: Progress,
    watch: Callable[[Snapshot], None],
    note: Callable[[str], None],
) -> None:
    """Watch until the job ends: show progress, end the run when a task has ended or a partition has no owner."""
    patience = plan.timing.claim_deadline
    slotless = time.monotonic()
    deadline = slotless + patience
    ending = False
    while job.is_alive():
        job.join(plan.timing.progress_interval)
        try:
            snapshot = progress.look()
        except UnavailableError as error:
            note(error.message)
            deadline = max(deadline, time.monotonic() + patience)  # nobody can claim meanwhile
            continue
        watch(snapshot)
        for text in progress.reports.fresh_notes():
            note(text)
        _name_hidden(plan, progress, note, plan.timing.hidden)
        if plan.targets is None and not ending and job.a_task_has_ended():
            ending = True
            _retire(plan, processes)
        if plan.targets is not None or not job.waits_for_a_slot():
            slotless = time.monotonic()
        elif time.monotonic() - slotless > patience:
            raise UnavailableError(
                f"a task has found no slot for {patience:.0f} s: its partitions have no owner",
                "a worker was lost: bring it back, or start again with the slots there are",
            )
        if progress.watcher is not None and not ending:
            progress.watcher.check()
        if progress.rebuilding():
            deadline = max(
                deadline, time.monotonic() + patience
            )  # before it claims an owner may fold for minutes
        missing = snapshot.unowned
        if missing and not ending and time.monotonic() > deadline:
            raise UnavailableError(
                f"nobody owns {', '.join(f'{name}:{p}' for name, p in missing)} after {patience:.0f} s",
                "are there enough task slots, and do the workers reach the broker? cqrs doctor, and Spark's log",
            )


def _name_hidden(plan: Plan, progress: Progress, note: Callable[[str], None], patience: float) -> None:
    """Say which open transactions of clients keep commands from being decided, and how to end them."""
    for found in progress.hidden(patience):
        note(f"{found.hiding()}; {found.way_out(plan.connection.bootstrap_server)}")


def _tell_trials(progress: Progress, note: Callable[[str], None]) -> bool:
    """Tell on which commands and events workers may be dying; true if there are any.

    The claims stand still: no task runs.
    """
    with suppress(UnavailableError):
        progress.look()
    suspicions = [
        f"{name} partition {number}: {trial}" for (name, number), trial in progress.trials().items()
    ]
    if progress.watcher is not None:
        suspicions += progress.watcher.suspicions()
    for text in suspicions:
        note(text)
    return bool(suspicions)


def _settled(
    plan: Plan,
    processes: ProcessPlan | None,
    endings: list[OwnerResult | ProcessResult],
    progress: Progress,
    note: Callable[[str], None],
) -> Snapshot:
    """End a run whose tasks all came back: raise the gravest error, or return what was decided."""
    for ending in endings:
        for text in ending.notes:
            if progress.reports.is_news(ending.about, text):
                note(text)
    errors = [ending.error for ending in endings if ending.error is not None]
    if errors:
        gravest = max(errors, key=lambda error: error.exit_code)
        raise explain_takeovers(plan, processes, gravest) if isinstance(gravest, TakenOverError) else gravest
    return progress.final(endings)


def _retire(plan: Plan, processes: ProcessPlan | None) -> None:
    """Fence every partition that is still this run's."""
    retire(plan)
    if processes is not None:
        retire_processes(processes)


def _stop(
    context: "SparkContext",
    plan: Plan,
    processes: ProcessPlan | None,
    progress: Progress,
    note: Callable[[str], None],
) -> None:
    """Fence first, so that owners return by themselves and close their shards cleanly; then cancel the other tasks.

    Those that write their last checkpoints have time for it.
    """
    _retire(plan, processes)
    quiet = time.monotonic() + plan.timing.quiet_end
    latest = quiet + plan.timing.retire_deadline
    tracker = context.statusTracker()
    while tracker.getActiveJobsIds() and time.monotonic() < (latest if progress.checkpointing() else quiet):
        time.sleep(0.05)
    if tracker.getActiveJobsIds():
        context.cancelJobGroup(GROUP)
        _retire(plan, processes)  # those that had not claimed yet at the first pass
    for text in progress.reports.fresh_notes():
        note(text)


def _in_vain(error: Exception) -> CqrsError:
    return CqrsError(f"the tasks were lost {FUTILE} times in a row ({_first_line(error)})", "see the log")


def _first_line(error: Any) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    return text.splitlines()[0][:200] if text else type(error).__name__
