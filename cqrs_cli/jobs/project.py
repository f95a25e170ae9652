"""The driver of `cqrs project`: one Spark job over all partitions.

The database knows how far each partition is: progress is read there.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.following.projections.database import open_database, reading
from cqrs_cli.following.projections.load import PACKAGE
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectionProgress, ProjectorResult
from cqrs_cli.following.projections.positions import read_positions
from cqrs_cli.following.projections.prepare import ends
from cqrs_cli.following.projections.reading import check_topic_ids
from cqrs_cli.jobs.engine.long_job import LongJob, Task, run_long_job
from cqrs_cli.jobs.engine.session import code_root, driver_host
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.notes import TaskNotes

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Seconds between two looks at the ends of the logs, and at the topics.
_TOPICS_EVERY = 10.0
_ENDS_EVERY = 2.0

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
    title = f"cqrs project {plan.name}"
    try:
        with TaskNotes(driver_host(context)) as notes:
            work = partial(_work, plan, tasks, notes.address)
            done, results = run_long_job(
                context,
                lambda _: LongJob(context, _GROUP, title, tasks, ProjectorResult, work),
                watcher,
                notes.saying(watch, note),
                partial(notes.say_once, note),
                endless=plan.targets is None,
            )
    finally:
        watcher.close()
    seconds = max(result.ended for result in results) - min(result.began for result in results)
    return replace(done, events=sum(result.events for result in results), seconds=seconds)


def _work(
    plan: ProjectionPlan, tasks: int, notes: Address, results: "Accumulator[dict[int, ProjectorResult]]"
) -> Task:
    return partial(_task, plan, tasks, notes, results)


def _task(
    plan: ProjectionPlan,
    tasks: int,
    notes: Address,
    results: "Accumulator[dict[int, ProjectorResult]]",
    number: int,
    _: Iterable[int],
) -> Iterator[int]:
    """The function that Spark runs on a worker."""
    from cqrs_cli.following.projections.task import project_share

    root, aggregates = code_root(PACKAGE, plan.root), code_root(plan.aggregates, plan.root)
    for result in project_share(plan, number, tasks, root, aggregates, notes):
        results.add({plan.sources.index(result.source): result})
    yield number


class _Watcher:
    """Reads how far a projection is, from its database and the logs."""

    def __init__(self, plan: ProjectionPlan) -> None:
        self._plan = plan
        self._engine: Engine = open_database(plan.place)
        self._ends = dict(plan.targets or ends(plan))
        self._read_ends = self._checked = time.monotonic()
        self._last = ProjectionProgress(time.monotonic(), {}, self._ends, beside=plan.beside)

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
        self._last = ProjectionProgress(time.monotonic(), positions, self._ends, beside=self._plan.beside)
        return self._last

    def has_moved(self, before: ProjectionProgress) -> bool:
        """True if rows were written since that look."""
        return self.look().position > before.position

    def check(self) -> None:
        """Raise `ContradictionError` if a topic is gone: a reader may hear of that after minutes, or never."""
        if time.monotonic() - self._checked > _TOPICS_EVERY:
            self._checked = time.monotonic()
            with suppress(UnavailableError):
                check_topic_ids(self._plan.connection, self._plan.name, self._plan.topic_ids)

    def close(self) -> None:
        self._engine.dispose()
