"""The driver of `cqrs project`: one Spark job over all partitions, submitted again when a task is lost, and watched.

The database knows how far each partition is: progress is read there.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.partition_job import collector, raise_gravest
from cqrs_cli.jobs.engine.session import code_root, gave_up
from cqrs_cli.projections.database import open_database, reading
from cqrs_cli.projections.load import PACKAGE
from cqrs_cli.projections.plan import ProjectionPlan, ProjectionProgress, ProjectorResult
from cqrs_cli.projections.positions import read_positions
from cqrs_cli.projections.prepare import ends
from cqrs_cli.projections.reading import check_topic_ids

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Lost tasks after which a run ends if no event was projected in between: it is not the machine, it is us.
FUTILE_JOBS = 5

#: Seconds between two looks at the positions, at the ends of the logs and at the topics, and before a lost job comes
#: again.
_LOOK_EVERY = 0.5
_TOPICS_EVERY = 10.0
_ENDS_EVERY = 2.0
_BACKOFF = 1.0

_GROUP = "cqrs-project"


def run_projection(
    context: "SparkContext",
    plan: ProjectionPlan,
    tasks: int,
    watch: Callable[[ProjectionProgress], None],
    note: Callable[[str], None],
) -> ProjectionProgress:
    """Project every partition of the plan until its targets are reached, or for ever; returns how far it came.

    Raises the error that ended the run.
    """
    watcher = _Watcher(plan)
    futile = 0
    try:
        while True:
            began = watcher.look()
            job = _ProjectionJob(context, plan, tasks)
            try:
                while job.is_alive():
                    job.join(_LOOK_EVERY)
                    watch(watcher.look())
                    watcher.check_topics()
                    if any(plan.targets is None or result.error for result in job.results()):
                        break  # one has ended, so all shall
            finally:
                job.cancel()
            results = job.results()
            for text in dict.fromkeys(text for result in results for text in result.notes):
                note(text)
            raise_gravest(results)
            if job.error is None:
                seconds = max(result.ended for result in results) - min(result.began for result in results)
                return replace(watcher.look(), events=sum(r.events for r in results), seconds=seconds)
            if jvm.is_gone(context, within=1.0):
                raise CqrsError(
                    "Spark's JVM is gone, and the projectors with it", "see the log, then start again"
                )
            futile = 0 if watcher.look().position > began.position else futile + 1
            if futile >= FUTILE_JOBS:
                raise gave_up(context, job.error)
            note(f"a task was lost; submitting again in {_BACKOFF:g} s")
            time.sleep(_BACKOFF)
    finally:
        watcher.close()


class _ProjectionJob(threading.Thread):
    """One submission of the job, in a thread of its own; the driver watches."""

    def __init__(self, context: "SparkContext", plan: ProjectionPlan, tasks: int) -> None:
        super().__init__(name="projection", daemon=True)
        self.error: Exception | None = None
        self._context, self._plan, self._tasks = context, plan, tasks
        self._results = collector(context, ProjectorResult)
        self.start()

    def run(self) -> None:
        context, tasks = self._context, self._tasks
        try:
            context.setJobGroup(_GROUP, f"cqrs project {self._plan.name}", interruptOnCancel=True)
            work = partial(_task, self._plan, tasks, self._results)
            context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(work).count()
        except Exception as error:  # py4j wraps whatever Spark says: a lost task, a cancelled job
            self.error = error

    def results(self) -> list[ProjectorResult]:
        """The results of the projectors that have ended."""
        return list(self._results.value.values())

    def cancel(self) -> None:
        """End what still runs: a batch under way is rolled back."""
        if self.is_alive():
            if not jvm.is_gone(self._context):
                self._context.cancelJobGroup(_GROUP)
            self.join(10.0)


def _task(
    plan: ProjectionPlan,
    tasks: int,
    results: "Accumulator[dict[int, ProjectorResult]]",
    number: int,
    _: Iterable[int],
) -> Iterator[int]:
    """The function that Spark runs on a worker."""
    from cqrs_cli.jobs.project.task import project_share

    root, aggregates = code_root(PACKAGE, plan.root), code_root(plan.aggregates, plan.root)
    for result in project_share(plan, number, tasks, root, aggregates):
        results.add({plan.sources.index(result.source): result})
    yield number


class _Watcher:
    """Reads how far a projection is, from its database and the logs."""

    def __init__(self, plan: ProjectionPlan) -> None:
        self._plan = plan
        self._engine: Engine = open_database(plan.place)
        self._ends = dict(plan.targets or ends(plan))
        self._read_ends = self._checked = time.monotonic()
        self._last = ProjectionProgress(time.monotonic(), {}, {})

    def look(self) -> ProjectionProgress:
        """The progress now; that of the last look if database or broker are away."""
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
        self._last = ProjectionProgress(time.monotonic(), positions, self._ends)
        return self._last

    def check_topics(self) -> None:
        """Raise `ContradictionError` if a topic is gone: a reader may hear of that after minutes, or never."""
        if time.monotonic() - self._checked > _TOPICS_EVERY:
            self._checked = time.monotonic()
            with suppress(UnavailableError):
                check_topic_ids(self._plan.connection, self._plan.name, self._plan.topic_ids)

    def close(self) -> None:
        self._engine.dispose()
