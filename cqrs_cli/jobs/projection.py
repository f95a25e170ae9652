"""The driver of `cqrs project`: long-running tasks for all partitions, or this process if there is little to do.

The progress is read from the database, which stores the position of each partition.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.projections.database import open_database, reading
from cqrs_cli.following.projections.load import PACKAGE, LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectionProgress, ProjectorResult
from cqrs_cli.following.projections.positions import read_positions
from cqrs_cli.following.projections.prepare import ends
from cqrs_cli.following.projections.reading import projected_topics
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.jobs.engine.driver_address import driver_place
from cqrs_cli.jobs.engine.long_job import LongJob, LongWork, Task, cancel_all
from cqrs_cli.jobs.engine.partition_job import raise_gravest
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.jobs.engine.watch import run_crew
from cqrs_cli.kafka.event_tail import require_all_partitions
from cqrs_cli.ownership.assignment import Share
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_messages import TaskNotes

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Seconds between two polls of the ends of the logs.
_ENDS_EVERY = 2.0

#: The number of records that one process projects in the time of a Spark start, which takes five seconds and more.
LITTLE = 100_000

#: Projects a plan to its targets, or for ever.
Run = Callable[[ProjectionPlan], ProjectionProgress]


def run_projection(
    context: "SparkContext",
    plan: ProjectionPlan,
    tasks: int,
    show: Callable[[ProjectionProgress], None],
    note: Callable[[str], None],
) -> ProjectionProgress:
    """Project every partition of the plan until its targets are reached, or for ever; return the progress.

    Raises the error that ended the run.
    """
    with TaskNotes(driver_place(context)) as notes, closing(_Watcher(plan)) as watcher:
        return run_crew(context, _ProjectionWork(plan, watcher, notes, show, note), tasks, note)


def run_here(
    plan: ProjectionPlan,
    loaded: LoadedProjection,
    show: Callable[[ProjectionProgress], None],
    note: Callable[[str], None],
) -> ProjectionProgress:
    """Run a projection as `run_projection` does, but in this process: a thread for each partition, no Spark."""
    with closing(_Watcher(plan)) as watcher:

        def idle(stopping: threading.Event) -> None:
            show(watcher.look())
            watcher.check()

        results = project_partitions(plan, plan.sources, loaded, note, idle)
        raise_gravest(results)
        return _summed(watcher.look(), results)


def is_little(plan: ProjectionPlan) -> bool:
    """True if this process would project all present events before Spark had started."""
    with closing(_Watcher(plan)) as watcher:
        return watcher.look().lag <= LITTLE


def _summed(done: ProjectionProgress, results: Sequence[ProjectorResult]) -> ProjectionProgress:
    seconds = max(result.ended for result in results) - min(result.began for result in results)
    return replace(done, events=sum(result.events for result in results), seconds=seconds)


def _task(
    plan: ProjectionPlan,
    share: Share,
    notes: Address,
    results: "Accumulator[dict[int, ProjectorResult]]",
    _: int,
    data: Iterable[int],
) -> Iterator[int]:
    """The function that Spark runs on a worker."""
    from cqrs_cli.following.projections.task import project_share

    root, aggregates = code_root(PACKAGE, plan.root), code_root(plan.aggregates, plan.root)
    for result in project_share(plan, share, root, aggregates, notes):
        results.add({plan.sources.index(result.source): result})
    yield from data


class _Watcher:
    """Reads a projection's progress from its database and the logs."""

    def __init__(self, plan: ProjectionPlan) -> None:
        self._plan = plan
        self._engine: Engine = open_database(plan.place)
        self._ends = dict(plan.targets or ends(plan))
        self._read_ends = time.monotonic()
        self._topics = projected_topics(plan)
        self._last = ProjectionProgress(time.monotonic(), {}, self._ends, beside=plan.beside)

    def look(self) -> ProjectionProgress:
        """Return the current progress; if the database or the broker is away, the progress of the last poll."""
        try:
            if self._plan.targets is None and time.monotonic() - self._read_ends > _ENDS_EVERY:
                self._read_ends = time.monotonic()
                self._ends = ends(self._plan)
            with reading(self._engine).connect() as connection:
                found = read_positions(connection, self._plan.name)
        except (SQLAlchemyError, CqrsError):
            return self._last
        positions = {
            source: found[source.topic, source.partition].next_offset
            for source in self._plan.sources
            if (source.topic, source.partition) in found
        }
        self._last = ProjectionProgress(time.monotonic(), positions, self._ends, beside=self._plan.beside)
        return self._last

    def check(self) -> None:
        """Raise `ContradictionError` if a topic is gone: a consumer may notice that after minutes, or never. Raise
        `OutgrownError` if a topic has more partitions: only a new plan has the new partitions.
        """
        sizes = self._topics.look()
        if self._plan.targets is None:
            require_all_partitions(sizes, self._plan.sources)

    def close(self) -> None:
        self._engine.dispose()


class _ProjectionWork(LongWork[ProjectorResult, ProjectionProgress]):
    """The work of a projection. Its end needs no fence: rows and position are one transaction of the database, which
    decides who may write.
    """

    group, kind = "cqrs-project", ProjectorResult

    def __init__(
        self,
        plan: ProjectionPlan,
        watcher: _Watcher,
        notes: TaskNotes,
        show: Callable[[ProjectionProgress], None],
        note: Callable[[str], None],
    ) -> None:
        super().__init__(f"cqrs project {plan.name}", len(plan.sources), Timing(), plan.targets is None)
        self._plan, self._notes, self._show, self._note = plan, notes, show, note
        self._watcher, self._last = watcher, watcher.look()
        self._before: dict[int, int] = {}  # by source: the position at which its task began
        self._again = 0  # the number of resubmitted tasks

    def task(self, share: Share, submission: int, results: "Accumulator[dict[int, ProjectorResult]]") -> Task:
        return partial(_task, self._plan, share, self._notes.address, results)

    def begin(self, share: Share, submission: int) -> None:
        self._again += submission > 0
        self._before |= self._positions(share)

    def _positions(self, share: Share) -> dict[int, int]:
        """Return the positions of these sources as of the last poll, without the sources that have not been read."""
        reached, sources = self._last.positions, self._plan.sources
        return {number: reached[sources[number]] for number in share if sources[number] in reached}

    def look(self) -> Callable[[], ProjectionProgress]:
        return partial(self._note_progress, self._watcher.look())

    def _note_progress(self, found: ProjectionProgress) -> ProjectionProgress:
        self._last = replace(found, again=self._again)
        return self._last

    def show(self, progress: ProjectionProgress) -> None:
        self._show(progress)

    def fresh_notes(self) -> Iterable[str]:
        return self._notes.fresh()

    def check(self) -> None:
        self._watcher.check()

    def has_moved(self, share: Share) -> bool:
        return any(at > self._before.get(number, 0) for number, at in self._positions(share).items())

    def end(self, jobs: Sequence[LongJob[ProjectorResult]]) -> None:
        cancel_all(jobs)

    def stop(self, jobs: Sequence[LongJob[ProjectorResult]]) -> bool:
        cancel_all(jobs)
        return True

    def ended(self, results: Sequence[ProjectorResult]) -> ProjectionProgress:
        for text in (text for result in results for text in result.notes):
            self._notes.take(text)  # the task's own datagram may be lost
        for text in self._notes.fresh():
            self._note(text)
        raise_gravest(results)
        return _summed(self.look()(), results)
