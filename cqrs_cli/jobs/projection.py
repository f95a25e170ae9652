"""The driver of `cqrs project`: it projects in tasks on Spark or, for a small backlog, in threads of this process.

The progress is read from the read model's database, which stores the position of each source partition.
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
from cqrs_cli.following.projections.database import open_database, read_only
from cqrs_cli.following.projections.load import PACKAGE, LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectionProgress, ProjectorResult
from cqrs_cli.following.projections.positions import read_positions
from cqrs_cli.following.projections.prepare import stable_ends
from cqrs_cli.following.projections.reading import topic_identity
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.jobs.engine.driver_address import driver_address
from cqrs_cli.jobs.engine.long_job import LongJob, LongWork, Task, cancel_all
from cqrs_cli.jobs.engine.partition_job import raise_gravest
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.jobs.engine.watch import run_tasks
from cqrs_cli.kafka.event_tail import require_all_partitions
from cqrs_cli.ownership.assignment import Assignment
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.listener import DatagramListener

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Seconds between two requests for the end offsets of the source partitions.
_ENDS_INTERVAL = 2.0

#: The number of records that this process projects while Spark would start, which takes at least five seconds.
SMALL_BACKLOG = 100_000

#: Runs the projection of a plan, here or on Spark, up to the plan's `end_offsets`; for ever if these are None.
RunProjection = Callable[[ProjectionPlan], ProjectionProgress]


def run_projection(
    context: "SparkContext",
    plan: ProjectionPlan,
    task_count: int,
    show: Callable[[ProjectionProgress], None],
    report: Callable[[str], None],
) -> ProjectionProgress:
    """Run the projection on Spark up to the plan's `end_offsets`, for ever if these are None; return the progress.

    Raises the error that ended the projection.
    """
    with DatagramListener(driver_address(context)) as task_messages, closing(_ProgressReader(plan)) as reader:
        return run_tasks(
            context, _ProjectionWork(plan, reader, task_messages, show, report), task_count, report
        )


def run_in_process(
    plan: ProjectionPlan,
    loaded_projection: LoadedProjection,
    show: Callable[[ProjectionProgress], None],
    report: Callable[[str], None],
) -> ProjectionProgress:
    """Run a projection as `run_projection` does, but in this process, with a thread for each source partition."""
    with closing(_ProgressReader(plan)) as reader:

        def show_progress(stopping: threading.Event) -> None:
            show(reader.read_progress())
            reader.check_topics()

        results = project_partitions(plan, plan.sources, loaded_projection, report, show_progress)
        raise_gravest(results)
        return reader.read_progress().with_results(results)


def is_small_backlog(plan: ProjectionPlan) -> bool:
    """True if this process projects all present events before Spark would have started."""
    with closing(_ProgressReader(plan)) as reader:
        return reader.read_progress().lag <= SMALL_BACKLOG


def _project_task(
    plan: ProjectionPlan,
    partitions: Assignment,
    messages_address: Address,
    results: "Accumulator[dict[int, ProjectorResult]]",
    _: int,
    data: Iterable[int],
) -> Iterator[int]:
    """Project these partitions on a Spark worker. `Task` describes the last two parameters."""
    from cqrs_cli.following.projections.task import run_task

    root, aggregates = code_root(PACKAGE, plan.root), code_root(plan.package, plan.root)
    for result in run_task(plan, partitions, root, aggregates, messages_address):
        results.add({plan.sources.index(result.source): result})
    yield from data


class _ProgressReader:
    """Reads a projection's progress: its positions from the database, the ends of its source partitions from Kafka."""

    def __init__(self, plan: ProjectionPlan) -> None:
        self._plan = plan
        self._engine: Engine = open_database(plan.database)
        self._ends = dict(plan.end_offsets or stable_ends(plan))
        self._ends_read_at = time.monotonic()
        self._topics = topic_identity(plan)
        self._last_progress = ProjectionProgress(time.monotonic(), {}, self._ends, is_shadow=plan.is_shadow)

    def read_progress(self) -> ProjectionProgress:
        """Return the current progress; if the database or the broker does not answer, the last progress."""
        try:
            if self._plan.end_offsets is None and time.monotonic() - self._ends_read_at > _ENDS_INTERVAL:
                self._ends_read_at = time.monotonic()
                self._ends = stable_ends(self._plan)
            with read_only(self._engine).connect() as connection:
                stored_positions = read_positions(connection, self._plan.name)
        except (SQLAlchemyError, CqrsError):
            return self._last_progress
        positions = {
            source: stored_positions[source.topic, source.partition].next_offset
            for source in self._plan.sources
            if (source.topic, source.partition) in stored_positions
        }
        self._last_progress = ProjectionProgress(
            time.monotonic(), positions, self._ends, is_shadow=self._plan.is_shadow
        )
        return self._last_progress

    def check_topics(self) -> None:
        """Raise `ContradictionError` if a source topic was deleted: a consumer may notice that after minutes, or never.
        Raise `PartitionsAddedError` if a source topic has more partitions: this plan does not have the new partitions.
        """
        partition_counts = self._topics.check_if_due()
        if self._plan.end_offsets is None:
            require_all_partitions(partition_counts, self._plan.sources)

    def close(self) -> None:
        self._engine.dispose()


class _ProjectionWork(LongWork[ProjectorResult, ProjectionProgress]):
    """The work of a projection. Its tasks can be cancelled without a fence: they write rows and position in one
    database transaction, which fails if another task has taken the partition over.
    """

    group, result_type = "cqrs-project", ProjectorResult

    def __init__(
        self,
        plan: ProjectionPlan,
        reader: _ProgressReader,
        task_messages: DatagramListener,
        show: Callable[[ProjectionProgress], None],
        report: Callable[[str], None],
    ) -> None:
        super().__init__(f"cqrs project {plan.name}", len(plan.sources), Timing(), plan.end_offsets is None)
        self._plan, self._task_messages, self._show, self._report = plan, task_messages, show, report
        self._reader, self._last_progress = reader, reader.read_progress()
        # Number of a source partition → its position when its task was last submitted.
        self._start_positions: dict[int, int] = {}
        self._resubmissions = 0  # number of resubmissions of tasks, after the first submission

    def task(
        self, partitions: Assignment, submission: int, results: "Accumulator[dict[int, ProjectorResult]]"
    ) -> Task:
        return partial(_project_task, self._plan, partitions, self._task_messages.address, results)

    def record_submission(self, partitions: Assignment, submission: int) -> None:
        self._resubmissions += submission > 0
        self._start_positions |= self._known_positions(partitions)

    def _known_positions(self, partitions: Assignment) -> dict[int, int]:
        """Return partition number → position as of the last poll, without the partitions that have no position yet."""
        positions, sources = self._last_progress.positions, self._plan.sources
        return {number: positions[sources[number]] for number in partitions if sources[number] in positions}

    def poll_progress(self) -> Callable[[], ProjectionProgress]:
        return partial(self._store_progress, self._reader.read_progress())

    def _store_progress(self, progress: ProjectionProgress) -> ProjectionProgress:
        self._last_progress = replace(progress, resubmissions=self._resubmissions)
        return self._last_progress

    def show(self, progress: ProjectionProgress) -> None:
        self._show(progress)

    def new_messages(self) -> Iterable[str]:
        return self._task_messages.take_new_messages()

    def check_topics(self) -> None:
        self._reader.check_topics()

    def made_progress(self, partitions: Assignment) -> bool:
        return any(
            position > self._start_positions.get(number, 0)
            for number, position in self._known_positions(partitions).items()
        )

    def stop_tasks(self, jobs: Sequence[LongJob[ProjectorResult]]) -> None:
        cancel_all(jobs)

    def abort_tasks(self, jobs: Sequence[LongJob[ProjectorResult]]) -> bool:
        cancel_all(jobs)
        return True

    def final_progress(self, results: Sequence[ProjectorResult]) -> ProjectionProgress:
        for text in (text for result in results for text in result.notes):
            self._task_messages.add_message(text)  # the task's own datagram may be lost
        for text in self._task_messages.take_new_messages():
            self._report(text)
        raise_gravest(results)
        return self.poll_progress()().with_results(results)
