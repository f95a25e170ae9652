"""The driver of `cqrs run`: a run owns the partitions of aggregates, and the subscriptions of process managers.

The driver learns the progress from the owners' claims in Kafka.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cqrs_cli.deciding.plan import Plan
from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import TakenOverError, UnavailableError
from cqrs_cli.following.processes.load import PROCESSES
from cqrs_cli.following.processes.plan import ProcessPlan
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.driver_address import driver_address
from cqrs_cli.jobs.engine.long_job import LongJob, LongWork, Task, cancel_all
from cqrs_cli.jobs.engine.partition_job import raise_gravest
from cqrs_cli.jobs.engine.session import code_root, worker_log
from cqrs_cli.jobs.engine.watch import run_tasks
from cqrs_cli.kafka.clients import is_reachable
from cqrs_cli.kafka.event_tail import PartitionsAddedError, require_all_partitions
from cqrs_cli.ownership.assignment import Assignment
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.ownership.standby import HeartbeatSender
from cqrs_cli.runs.plan_watch import PlanWatch
from cqrs_cli.runs.progress import Progress
from cqrs_cli.runs.reports import Reports
from cqrs_cli.runs.run_partitions import RunPartition, partition_name, run_partitions
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.runs.source_files import SourceWatch
from cqrs_cli.system.tolerant_stderr import ignore_stderr_errors

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator


def run_owners(
    context: "SparkContext",
    plan: Plan,
    task_count: int,
    show: Callable[[Snapshot], None],
    report: Callable[[str], None],
    process_plan: ProcessPlan | None = None,
    sources: SourceWatch | None = None,
) -> Snapshot:
    """Own every partition of the plans, up to the plans' end offsets (`--once`) or for ever; return the progress.

    `sources`: a watch on the source files that a standby run has loaded.

    Raises the error that ended the run. When the function returns or raises, this run owns no partition: each has been
    fenced.
    """
    with Reports(driver_address(context)) as reports, Progress(plan, reports, process_plan) as progress:
        heartbeat = HeartbeatSender(
            plan.connection,
            plan.run,
            progress.claim_slots,
            plan.timing.heartbeat_timeout,
            progress.sends_heartbeats,
        )
        with heartbeat:
            return run_tasks(
                context,
                RunWork(context, plan, process_plan, progress, show, report, sources),
                task_count,
                report,
            )


class RunWork(LongWork[OwnerExit[Any], Snapshot]):
    """The work of a run. An owner stops when this driver or a later run fences it."""

    group, result_type, can_reassign = "cqrs-run", OwnerExit, True

    def __init__(
        self,
        context: "SparkContext",
        plan: Plan,
        process_plan: ProcessPlan | None,
        progress: Progress,
        show: Callable[[Snapshot], None],
        report: Callable[[str], None],
        sources: SourceWatch | None = None,
    ) -> None:
        self._partitions = run_partitions(plan, process_plan)
        super().__init__("cqrs run", len(self._partitions), plan.timing, plan.end_offsets is None)
        address = progress.reports.address
        self._plan = replace(plan, reports=address, worker_log=worker_log(context))
        self._process_plan = None if process_plan is None else replace(process_plan, reports=address)
        self._context, self._progress, self._show, self._report = context, progress, show, report
        is_standby = plan.timing.standby_timeout is not None
        self._watch = PlanWatch(plan, process_plan, sources) if is_standby else None
        self._new_partitions_reported = False

    def task(
        self,
        partition_numbers: Assignment,
        submission: int,
        results: "Accumulator[dict[int, OwnerExit[Any]]]",
    ) -> Task:
        plan = replace(self._plan, submission=submission)
        process_plan = (
            None if self._process_plan is None else replace(self._process_plan, submission=submission)
        )
        return partial(_own_task, plan, process_plan, partition_numbers, results)

    def record_submission(self, partition_numbers: Assignment, submission: int) -> None:
        self._progress.record_submission(self._partitions_of(partition_numbers), submission)

    def _partitions_of(self, partition_numbers: Assignment) -> list[RunPartition]:
        return [self._partitions[number] for number in partition_numbers]

    def poll_progress(self) -> Callable[[], Snapshot]:
        return partial(self._progress.store_answer, self._progress.poll_broker())

    def show(self, progress: Snapshot) -> None:
        self._show(progress)

    def new_messages(self) -> Iterable[str]:
        yield from self._progress.reports.take_new_messages()
        yield from self._describe_hiding_transactions(self.timing.hidden_check_interval)

    def _describe_hiding_transactions(self, timeout: float) -> Iterator[str]:
        """Yield texts about clients' open transactions that hide commands from owners, each with the way to end it."""
        for transaction in self._progress.new_hiding_transactions(timeout):
            yield f"{transaction.hidden_records_message()}; {transaction.hint(self._plan.connection)}"

    def check_topics(self) -> None:
        """In a standby run, raise `PlanChangedError` if the topics have changed, `CqrsError` if a source file has.

        Raise `PartitionsAddedError` if a topic has more partitions and this run has only subscriptions. A run that also
        decides commands reports the new partitions once and continues: the next run reads their events.
        """
        if self._watch is not None:
            self._watch.check(self._progress.owned_partitions)
        try:
            if self._progress.topic_identity is not None and self._process_plan is not None:
                partition_counts = self._progress.topic_identity.check_if_due()
                if self._process_plan.end_offsets is None:
                    require_all_partitions(
                        partition_counts,
                        [subscription.source for subscription in self._process_plan.subscriptions],
                    )
        except PartitionsAddedError as error:
            if not self._plan.partitions():
                raise
            if not self._new_partitions_reported:
                self._report(f"{error.message}: only the next run reads the new partitions")
            self._new_partitions_reported = True

    def is_over(self, results: Sequence[OwnerExit[Any]]) -> bool:
        """True if these results end the run, or if a takeover by a later run has stalled.

        The takeover of one partition does not end this run: a later run takes the partitions over one by one, and those
        which wait for their turn keep their owner in this run.
        """
        other_results = [result for result in results if not isinstance(result.error, TakenOverError)]
        return super().is_over(other_results) or self._progress.takeover.has_stalled(
            self.timing.next_claim_timeout
        )

    def partition_names(self, partition_numbers: Assignment) -> Sequence[str]:
        return [partition_name(partition) for partition in self._partitions_of(partition_numbers)]

    def unowned_partitions(self, progress: Snapshot) -> Sequence[str]:
        return () if self.timing.standby_timeout is not None else progress.unowned_names()

    def is_silent(self, partition_numbers: Assignment) -> bool:
        timeout = self.timing.decide_timeout + self.timing.silence_timeout
        return self._progress.is_silent(self._partitions_of(partition_numbers), timeout)

    def is_rebuilding(self) -> bool:
        return bool(self._progress.rebuilding_partitions())  # an owner may fold for minutes before its claim

    def made_progress(self, partition_numbers: Assignment) -> bool:
        return self._progress.any_claimed(self._partitions_of(partition_numbers))

    def describe_suspects(self, partition_numbers: Assignment) -> Iterable[str]:
        return self._progress.describe_suspects(self._partitions_of(partition_numbers))

    def stop_tasks(self, jobs: Sequence[LongJob[OwnerExit[Any]]]) -> None:
        """Fence every partition that this run still owns. Its owners then return by themselves, and close their
        shards.
        """
        retire(self._plan)
        if self._process_plan is not None:
            retire_processes(self._process_plan)

    def abort_tasks(self, jobs: Sequence[LongJob[OwnerExit[Any]]]) -> bool:
        """Ask the tasks to end, and fence the owned partitions. Tasks that write their last checkpoints have time to
        finish. Then cancel the remaining tasks, and fence the partitions that they have claimed in the meantime: Spark
        kills their workers up to two seconds later.

        If the broker does not answer, no partition can be fenced, and no owner learns of the end: all tasks are
        cancelled at once. Return False in this case.
        """
        if not jobs:
            return True
        self._progress.reports.end_tasks()
        has_broker = is_reachable(self._plan.connection, self.timing.shutdown_answer_timeout)
        if has_broker:
            self.stop_tasks(jobs)
        else:
            self._report("no answer from Kafka: cancelling all tasks; open transactions will time out")
        if jvm.has_exited(self._context):
            return has_broker
        close_deadline = time.monotonic() + (self.timing.close_timeout if has_broker else 0.0)
        checkpoint_deadline = close_deadline + (self.timing.retire_deadline if has_broker else 0.0)
        running_jobs = list(jobs)
        while running_jobs and time.monotonic() < (
            checkpoint_deadline if self._progress.is_checkpointing() else close_deadline
        ):
            running_jobs[0].join(0.05)
            running_jobs = [job for job in running_jobs if job.is_alive()]
        if running_jobs:
            cancel_all(running_jobs)
        if has_broker:
            self.stop_tasks(jobs)
        for text in self._progress.reports.take_new_messages():
            self._report(text)
        return has_broker

    def final_progress(self, results: Sequence[OwnerExit[Any]]) -> Snapshot:
        for owner_exit in results:
            for text in owner_exit.notes:
                self._progress.reports.add_message(text)
        for text in self._progress.reports.take_new_messages():
            self._report(text)
        try:
            raise_gravest(results)
        except TakenOverError as error:
            with suppress(UnavailableError):
                self._progress.poll_progress()
            raise self._progress.takeover.explain_error(error) from None
        snapshot = self._progress.final_snapshot(results)
        for text in self._describe_hiding_transactions(0):
            self._report(text)
        return snapshot


def _own_task(
    plan: Plan,
    process_plan: ProcessPlan | None,
    partition_numbers: Assignment,
    results: "Accumulator[dict[int, OwnerExit[Any]]]",
    _: int,
    data: Iterable[int],
) -> Iterator[int]:
    """Own these partitions on a Spark worker. `Task` describes the last two parameters."""
    from pyspark import TaskContext

    from cqrs_cli.runs.task import own_partitions

    ignore_stderr_errors()  # the workers' log is a file
    task = TaskContext.get()
    attempt = task.attemptNumber() if task else 0
    aggregates = code_root(plan.package, plan.root)
    all_partitions = run_partitions(plan, process_plan)
    if process_plan is not None:
        root = code_root(PROCESSES, process_plan.root)
        process_plan = replace(process_plan, root=root, aggregates_root=aggregates)
    partitions = [all_partitions[number] for number in partition_numbers]
    for owner_exit in own_partitions(replace(plan, root=aggregates), partitions, attempt, process_plan):
        results.add({all_partitions.index(owner_exit.partition): owner_exit})
    yield from data
