"""The driver of `cqrs run`: all partitions of aggregates, and all that process managers subscribe to, in one run.

The claims carry the progress.
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
from cqrs_cli.jobs.engine.driver_address import driver_place
from cqrs_cli.jobs.engine.long_job import LongJob, LongWork, Task, cancel_all
from cqrs_cli.jobs.engine.partition_job import raise_gravest
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.jobs.engine.watch import run_crew
from cqrs_cli.kafka.clients import is_reachable
from cqrs_cli.kafka.event_tail import OutgrownError, require_all_partitions
from cqrs_cli.ownership.assignment import Share
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.ownership.standby import HeartbeatSender
from cqrs_cli.runs.progress import Progress
from cqrs_cli.runs.reports import Reports
from cqrs_cli.runs.run_partitions import RunPlace, places
from cqrs_cli.runs.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator


def run_owners(
    context: "SparkContext",
    plan: Plan,
    tasks: int,
    show: Callable[[Snapshot], None],
    note: Callable[[str], None],
    processes: ProcessPlan | None = None,
) -> Snapshot:
    """Own every partition of the plans until `--once` is done, or for ever; return the progress.

    Raises the error that ended the run. In every case the partitions that this run still owns have been fenced.
    """
    with Reports(driver_place(context)) as reports, Progress(plan, reports, processes) as progress:
        heart = HeartbeatSender(
            plan.connection, plan.run, progress.seats, plan.timing.beats_for, progress.beats
        )
        with heart:
            return run_crew(context, RunWork(context, plan, processes, progress, show, note), tasks, note)


class RunWork(LongWork[OwnerExit[Any], Snapshot]):
    """The work of a run. Its owners stop when this driver or a later run fences them."""

    group, kind, movable = "cqrs-run", OwnerExit, True

    def __init__(
        self,
        context: "SparkContext",
        plan: Plan,
        processes: ProcessPlan | None,
        progress: Progress,
        show: Callable[[Snapshot], None],
        note: Callable[[str], None],
    ) -> None:
        self._places = places(plan, processes)
        super().__init__("cqrs run", len(self._places), plan.timing, plan.targets is None)
        address = progress.reports.address
        self._plan = replace(plan, reports=address)
        self._processes = processes and replace(processes, reports=address)
        self._context, self._progress, self._show, self._note = context, progress, show, note
        self._outgrown = False  # True once the message was reported

    def task(self, share: Share, submission: int, results: "Accumulator[dict[int, OwnerExit[Any]]]") -> Task:
        plan = replace(self._plan, submission=submission)
        processes = self._processes and replace(self._processes, submission=submission)
        return partial(_task, plan, processes, share, results)

    def begin(self, share: Share, submission: int) -> None:
        self._progress.begin(self._of(share), submission)

    def _of(self, share: Share) -> list[RunPlace]:
        return [self._places[number] for number in share]

    def look(self) -> Callable[[], Snapshot]:
        return partial(self._progress.note, self._progress.read())

    def show(self, progress: Snapshot) -> None:
        self._show(progress)

    def fresh_notes(self) -> Iterable[str]:
        yield from self._progress.reports.fresh_notes()
        yield from self._hidden(self.timing.hidden)

    def _hidden(self, patience: float) -> Iterator[str]:
        """Yield texts about open transactions of clients that hide commands from owners, and the way to end each."""
        for found in self._progress.hidden(patience):
            yield f"{found.hiding()}; {found.way_out(self._plan.connection.bootstrap_server)}"

    def check(self) -> None:
        """Raise `OutgrownError` if a topic has more partitions and this run has only subscriptions. A run that also
        decides reports the error once and continues, because no event is lost.
        """
        try:
            if self._progress.topics is not None and self._processes is not None:
                sizes = self._progress.topics.look()
                if self._processes.targets is None:
                    require_all_partitions(sizes, [one.source for one in self._processes.subscriptions])
        except OutgrownError as error:
            if not self._plan.partitions():
                raise
            if not self._outgrown:
                self._note(f"{error.message}: the next run hears the others, too")
            self._outgrown = True

    def is_over(self, results: Sequence[OwnerExit[Any]]) -> bool:
        """True if these results end the run, as for all work, except that owners may be taken over. A later run takes
        over partitions one by one: to fence the other partitions would leave them without an owner until their turn.
        """
        others = [one for one in results if not isinstance(one.error, TakenOverError)]
        return super().is_over(others) or self._progress.takeover.has_stopped(self.timing.next_claim)

    def unowned(self, progress: Snapshot) -> Sequence[str]:
        return () if self.timing.standby_timeout is not None else progress.unowned_places()

    def needs_time(self) -> bool:
        return bool(self._progress.rebuilding())  # before the claim, an owner may fold for minutes

    def has_moved(self, share: Share) -> bool:
        return self._progress.claimed(self._of(share))

    def suspicions(self, share: Share) -> Iterable[str]:
        return self._progress.suspicions(self._of(share))

    def end(self, jobs: Sequence[LongJob[OwnerExit[Any]]]) -> None:
        """Fence every partition that this run still owns: its owners return by themselves, and close their shards."""
        retire(self._plan)
        if self._processes is not None:
            retire_processes(self._processes)

    def stop(self, jobs: Sequence[LongJob[OwnerExit[Any]]]) -> bool:
        """Fence first, then cancel the remaining tasks. Tasks that write their last checkpoints have time to finish.

        Without a broker no partition can be fenced, and no owner learns of the end: all tasks are cancelled at once.
        """
        if not jobs:
            return True
        reached = is_reachable(self._plan.connection, self.timing.last_answer)
        if reached:
            self.end(jobs)
        else:
            self._note(
                "no answer from Kafka: tasks are ended at once; transactions that are open will time out"
            )
        if jvm.is_gone(self._context):
            return reached
        at_work = reached and self._progress.beats()  # a standby run has nothing to close
        quiet = time.monotonic() + (self.timing.quiet_end if at_work else 0.0)
        latest = quiet + (self.timing.retire_deadline if reached else 0.0)
        alive = list(jobs)
        while alive and time.monotonic() < (latest if self._progress.checkpointing() else quiet):
            alive[0].join(0.05)
            alive = [job for job in alive if job.is_alive()]
        if alive:
            cancel_all(alive)
            if reached:
                self.end(jobs)  # tasks that had not claimed yet at the first pass
        for text in self._progress.reports.fresh_notes():
            self._note(text)
        return reached

    def ended(self, results: Sequence[OwnerExit[Any]]) -> Snapshot:
        for ending in results:
            for text in ending.notes:
                if self._progress.reports.is_news(ending.about, text):
                    self._note(text)
        try:
            raise_gravest(results)
        except TakenOverError as error:
            with suppress(UnavailableError):
                self._progress.look()
            raise self._progress.takeover.explained(error) from None
        done = self._progress.final(results)
        for text in self._hidden(0):
            self._note(text)
        return done


def _task(
    plan: Plan,
    processes: ProcessPlan | None,
    share: Share,
    results: "Accumulator[dict[int, OwnerExit[Any]]]",
    _: int,
    data: Iterable[int],
) -> Iterator[int]:
    """The function that Spark runs on a worker."""
    from pyspark import TaskContext

    from cqrs_cli.runs.task import own

    task = TaskContext.get()
    attempt = task.attemptNumber() if task else 0
    aggregates = code_root(plan.package, plan.root)
    every = places(plan, processes)
    if processes is not None:
        root = code_root(PROCESSES, processes.root)
        processes = replace(processes, root=root, aggregates_root=aggregates)
    owned = [every[number] for number in share]
    for ending in own(replace(plan, root=aggregates), owned, attempt, processes):
        results.add({every.index(ending.owned): ending})
    yield from data
