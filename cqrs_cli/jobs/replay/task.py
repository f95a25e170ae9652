"""The task of a replay on a worker: one partition's events, read with librdkafka and folded."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.jobs.engine.partition_job import guarded
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.jobs.replay.fold import NOTHING, ReplayFold, ReplayFoldError, Total
from cqrs_cli.kafka.clients import bulk_consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.registry import load


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The data that every task needs."""

    connection: Connection
    topics: Topics
    package: str
    root: Path  # where the package lies; on a worker it comes from the shipped archive
    bounds: Mapping[int, tuple[int, int]]  # partition → (start, end) offsets, for all partitions
    until: str | None = None  # RFC 3339 in UTC with milliseconds


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of one partition: a total, or the error that ends the replay."""

    partition: int
    total: Total = NOTHING
    error: CqrsError | None = None


def replay_partition(plan: ReplayPlan, partition: int) -> tuple[ReplayFold | None, ReplayResult]:
    """All aggregates of a partition. Raises nothing: an error is a value, so that Spark sees no task fail."""
    log = PartitionLog(plan.connection, plan.topics, partition)
    folds: list[ReplayFold] = []

    def work() -> ReplayResult:
        aggregate = load(plan.topics.aggregate, plan.package, code_root(plan.package, plan.root))
        fold = ReplayFold(aggregate, plan.until)
        _fold(log, *plan.bounds[partition], fold)
        folds.append(fold)
        return ReplayResult(partition, fold.total())

    result = guarded(
        plan.connection, log.place("events"), work, lambda error: ReplayResult(partition, error=error)
    )
    return (folds[0] if folds else None), result


def _fold(log: PartitionLog, start: int, end: int, fold: ReplayFold) -> None:
    """Fold the events of a stretch; raises `ContradictionError` naming the record that cannot follow."""
    try:
        with closing(bulk_consumer(log.connection)) as reader:
            for records in log.read_with(reader, "events", start, end):
                fold.fold(records)
    except ReplayFoldError as error:
        place = f"--partition {log.partition} --from {error.offset}"
        raise ContradictionError(
            f"{log.place('events')} {error}",
            f"look at it: cqrs tail {log.topics.aggregate} events {place} -n 1",
        ) from error
