"""The driver of `cqrs replay`: folds all aggregates of a type from the events topic alone, with one or more Spark tasks
for each partition.

Results return through an accumulator. A task returns its error as a value, too, so Spark sees no failed task.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.client.aggregate_logs import find_events
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.jobs.engine.driver_address import driver_address
from cqrs_cli.jobs.engine.partition_job import result_accumulator, run_job, run_on_workers, with_shipped_code
from cqrs_cli.jobs.engine.staging import LINES, Target, staged_writer
from cqrs_cli.jobs.replay.output import aggregate_rows, state_schema
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.registry import load
from cqrs_cli.scans.replay.fold import EMPTY_TOTAL, Total
from cqrs_cli.scans.replay.task import ReplayPlan, ReplayResult, replay_part
from cqrs_cli.telemetry.task_reports import JobProgress, MakeListener, TaskReports

if TYPE_CHECKING:
    from pyspark import SparkContext


class ReplaySummary(NamedTuple):
    """The result of all partitions."""

    total: Total
    seconds: float


def plan_replay(
    connection: Connection,
    topics: Topics,
    package: str,
    root: Path,
    until: str | None = None,
    positions: Mapping[int, int] | None = None,
    partitioner: Partitioner = "murmur2",
) -> ReplayPlan:
    """Return the plan to replay the events that are committed now.

    `until`: the time up to which events are folded, RFC 3339 in UTC with milliseconds. `positions`: partition → the
    offset before which events are folded.

    Raises `ConfigurationError` if the events topic is missing, `UsageError` for positions that the topic does not have.
    """
    key_space, bounds = find_events(connection, topics, partitioner, positions)
    return ReplayPlan(connection, topics, package, root, bounds, key_space, until)


def parts_per_partition(task_count: int, partition_count: int) -> int:
    """Return the number of parts into which each partition is divided, so that `task_count` concurrent tasks
    are busy. A task folds one part.

    The number is 1 unless there are at least twice as many tasks as partitions.
    """
    return max(1, task_count // max(1, partition_count))


def replay_events(
    context: "SparkContext",
    plan: ReplayPlan,
    target: Target | None = None,
    show: Callable[[JobProgress], None] = lambda progress: None,
    make_listener: MakeListener = TaskReports,
) -> ReplaySummary:
    """Fold all events; with a target, write the aggregates to it. `show` gets the progress several times a second.
    `make_listener` replaces the receiver of progress reports in tests.

    Raises the gravest error of the tasks, such as `ContradictionError`, with the offset, for a log that contradicts
    itself. After an error the target is unchanged.
    """
    results = result_accumulator(context, ReplayResult)
    started_at = time.monotonic()
    with make_listener(driver_address(context), _offsets_by_task(plan)) as reports:
        plan = replace(plan, report_address=reports.address)
        run_tasks = partial(
            run_job, context, results, show=_progress_callback(reports, show), partitions=plan.tasks
        )
        if target is None:
            results_by_task = run_tasks(
                partial(run_on_workers, context, plan.tasks, partial(_replay_task, plan), results)
            )
        else:
            replay_rows = partial(aggregate_rows, plan, results, target.format)
            schema = state_schema(_state_class(plan)) if target.format == "parquet" else LINES
            with staged_writer(context, target) as write:
                results_by_task = run_tasks(partial(write, len(plan.tasks), replay_rows, schema))
    total = EMPTY_TOTAL
    for result in results_by_task.values():
        total = total.plus(result.total)
    return ReplaySummary(total, time.monotonic() - started_at)


def _state_class(plan: ReplayPlan) -> type[State]:
    return load(plan.topics.aggregate, plan.package, plan.root).state


def _replay_task(plan: ReplayPlan, task: int) -> ReplayResult:
    """Fold one part on a Spark worker, if there is no target."""
    return replay_part(with_shipped_code(plan), task)


def _offsets_by_task(plan: ReplayPlan) -> dict[int, int | None]:
    """Return task → the number of offsets that it reads."""
    return {
        task: sum(end - start for _, start, end in plan.segments(plan.partition(task))) for task in plan.tasks
    }


def _progress_callback(
    reports: TaskReports, show: Callable[[JobProgress], None]
) -> Callable[[dict[int, ReplayResult]], None]:
    return lambda results: show(
        reports.progress({task: result.total.events for task, result in results.items()})
    )
