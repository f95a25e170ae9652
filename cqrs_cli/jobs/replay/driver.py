"""The driver of `cqrs replay`: all aggregates of a type, folded from the events topic alone; a Spark task a partition.

What a task finds comes back through an accumulator, a contradiction included; Spark sees no task fail.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.jobs.engine.partition_job import collector, finish
from cqrs_cli.jobs.replay import output
from cqrs_cli.jobs.replay.fold import NOTHING, Total
from cqrs_cli.jobs.replay.shards import Compared, Shards
from cqrs_cli.jobs.replay.task import ReplayPlan, Share, fold_partition
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

    Shares = Accumulator[dict[int, Share]]


class Replayed(NamedTuple):
    """All partitions together. `compared`: partition → what came of its shard, if that was asked for."""

    total: Total
    seconds: float
    compared: dict[int, Compared]


def plan(
    connection: Connection,
    topics: Topics,
    package: str,
    root: Path,
    until: str | None = None,
    shards: Shards | None = None,
) -> ReplayPlan:
    """A replay of what is committed now. Raises `ConfigurationError` when there is no events topic."""
    count = readers.partitions(connection, topics.events)
    bounds = readers.bounds(connection, topics.events, range(count))
    return ReplayPlan(connection, topics, package, root, bounds, until, shards)


def replay(
    context: "SparkContext",
    plan: ReplayPlan,
    target: output.Target | None = None,
    watch: Callable[[float], None] = lambda part: None,
) -> Replayed:
    """Fold everything; `watch` hears which part of the log is done. With a target the aggregates are written there.

    Raises the gravest error of the tasks: `ContradictionError` for a log that contradicts itself or a shard that
    differs, naming the place; then nothing is written.
    """
    shares = collector(context, Share)
    began = time.monotonic()
    if target is None:
        done = finish(context, shares, partial(_count, context, plan, shares), _watcher(plan, watch))
    else:
        rows = partial(output.rows, plan, shares, target.format)
        with output.staged(context, target) as write:
            done = finish(context, shares, partial(write, len(plan.bounds), rows), _watcher(plan, watch))
    return _together(done, time.monotonic() - began)


def _count(context: "SparkContext", plan: ReplayPlan, shares: "Shares") -> None:
    numbers = context.parallelize(range(len(plan.bounds)), len(plan.bounds))
    numbers.foreach(partial(_share, plan, shares))


def _share(plan: ReplayPlan, shares: "Shares", partition: int) -> None:
    """What Spark runs on a worker when nothing is to be written."""
    shares.add({partition: fold_partition(plan, partition)[1]})


def _watcher(plan: ReplayPlan, watch: Callable[[float], None]) -> Callable[[dict[int, Share]], None]:
    spans = {partition: end - start for partition, (start, end) in plan.bounds.items()}
    return lambda done: watch(sum(spans[partition] for partition in done) / max(1, sum(spans.values())))


def _together(shares: dict[int, Share], seconds: float) -> Replayed:
    total = NOTHING
    for share in shares.values():
        total = total.plus(share.total)
    compared = {p: share.compared for p, share in shares.items() if share.compared is not None}
    return Replayed(total, seconds, compared)
