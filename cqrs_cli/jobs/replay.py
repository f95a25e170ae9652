"""The driver of `cqrs replay`: all aggregates of a type, folded from the events topic alone; a Spark task a partition.

What a task finds comes back through an accumulator, a contradiction included; Spark sees no task fail.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs import replay_output
from cqrs_cli.jobs.assignment import shard_folder
from cqrs_cli.jobs.refold import NOTHING, Total
from cqrs_cli.jobs.replay_task import Plan, Share, fold_partition
from cqrs_cli.jobs.shard_check import Compared, Shards
from cqrs_cli.jobs.spark import gave_up
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin import Admin, check_topics
from cqrs_cli.kafka.connection import Connection
from cqrs_cli.kafka.topics import Plan as TopicPlan
from cqrs_cli.kafka.topics import Topics

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

    Shares = Accumulator[dict[int, Share]]

#: How often a watcher hears how far it is, in seconds.
LOOK_EVERY = 0.2


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
) -> Plan:
    """A replay of what is committed now. Raises `ConfigurationError` when there is no events topic."""
    count = readers.partitions(connection, topics.events)
    bounds = readers.bounds(connection, topics.events, range(count))
    return Plan(connection, topics, package, root, bounds, until, shards)


def replay(
    context: "SparkContext",
    plan: Plan,
    target: replay_output.Target | None = None,
    watch: Callable[[float], None] = lambda part: None,
) -> Replayed:
    """Fold everything; `watch` hears which part of the log is done. With a target the aggregates are written there.

    Raises the gravest error of the tasks: `ContradictionError` for a log that contradicts itself or a shard that
    differs, naming the place; then nothing is written.
    """
    shares: Shares = context.accumulator({}, _Merged())  # type: ignore[arg-type]
    began = time.monotonic()
    if target is None:
        _finish(context, plan, shares, partial(_count, context, plan, shares), watch)
    else:
        rows = partial(replay_output.rows, plan, shares)
        with replay_output.staged(context, target) as write:
            _finish(context, plan, shares, partial(write, len(plan.bounds), rows), watch)
    return _together(shares.value, time.monotonic() - began)


def _count(context: "SparkContext", plan: Plan, shares: "Shares") -> None:
    numbers = context.parallelize(range(len(plan.bounds)), len(plan.bounds))
    numbers.foreach(partial(_share, plan, shares))


def _share(plan: Plan, shares: "Shares", partition: int) -> None:
    """What Spark runs on a worker when nothing is to be written."""
    shares.add({partition: fold_partition(plan, partition)[1]})


class _Merged:
    """Collects the tasks' shares; one that Spark ran twice counts once."""

    def zero(self, value: dict[int, Share]) -> dict[int, Share]:
        return {}

    def addInPlace(self, one: dict[int, Share], other: dict[int, Share]) -> dict[int, Share]:
        one.update(other)
        return one


class _Job(threading.Thread):
    """A Spark job beside the driver's watch, so that Ctrl-C meets no call that is waiting for the JVM."""

    def __init__(self, job: Callable[[], None]) -> None:
        super().__init__(name="replay", daemon=True)
        self._job = job
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._job()
        except Exception as error:  # py4j wraps whatever Spark says
            self.error = error


def _finish(
    context: "SparkContext",
    plan: Plan,
    shares: "Shares",
    run: Callable[[], None],
    watch: Callable[[float], None],
) -> None:
    """Run the job to its end; raises the gravest error of its tasks, of the lowest partition."""
    job = _Job(run)
    while job.is_alive():
        job.join(LOOK_EVERY)
        watch(_part(plan, shares.value))
    errors = [share.error for _, share in sorted(shares.value.items()) if share.error is not None]
    if errors:
        raise max(errors, key=lambda error: error.exit_code)
    if job.error is not None:
        raise job.error if isinstance(job.error, CqrsError) else gave_up(context, job.error)


def _part(plan: Plan, done: dict[int, Share]) -> float:
    spans = {partition: end - start for partition, (start, end) in plan.bounds.items()}
    return sum(spans[partition] for partition in list(done)) / max(1, sum(spans.values()))


def _together(shares: dict[int, Share], seconds: float) -> Replayed:
    total = NOTHING
    for share in shares.values():
        total = total.plus(share.total)
    compared = {p: share.compared for p, share in sorted(shares.items()) if share.compared is not None}
    return Replayed(total, seconds, compared)


def live_shards(connection: Connection, topics: Topics, state_dir: Path) -> Shards:
    """What to compare with; raises `ConfigurationError` for topics that are not as they must be."""
    with Admin(connection) as admin:
        found = check_topics(admin, topics, TopicPlan())
    ids = {str(kind): topic_id for kind, topic_id in found.ids.items()}
    return Shards(shard_folder(state_dir, topics), found.cluster_id, ids, found.partitions)
