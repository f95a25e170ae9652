"""What a replay runs on a worker: one partition read with librdkafka and folded, beside its shard if that is wanted."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.jobs.engine.partition_job import guarded
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.jobs.replay.fold import NOTHING, RefoldError, ReplayFold, Total
from cqrs_cli.jobs.replay.shards import Compared, Shards, compare
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import bulk_consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.registry import load


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What every task is told."""

    connection: Connection
    topics: Topics
    package: str
    root: Path  # where the package lies; on a worker it comes from the shipped archive
    bounds: Mapping[int, tuple[int, int]]  # partition → (start, end) offsets, for all partitions
    until: str | None = None  # RFC 3339 in UTC with milliseconds
    shards: Shards | None = None  # compare with these


@dataclass(frozen=True, slots=True)
class Share:
    """What came of one partition: a total, or the error that ends the replay."""

    partition: int
    total: Total = NOTHING
    compared: Compared | None = None
    error: CqrsError | None = None


def fold_partition(plan: ReplayPlan, partition: int) -> tuple[ReplayFold | None, Share]:
    """All aggregates of a partition. Raises nothing: an error is a value, so that Spark sees no task fail."""
    done: list[ReplayFold] = []

    def work() -> Share:
        aggregate = load(plan.topics.aggregate, plan.package, code_root(plan.package, plan.root))
        folding = ReplayFold(aggregate, plan.until)
        with closing(bulk_consumer(plan.connection)) as reader:
            compared = _Stretch(plan, partition, reader, aggregate, folding).fold()
        done.append(folding)
        return Share(partition, folding.total(), compared)

    where = f"{plan.topics.events} partition {partition}"
    share = guarded(plan.connection, where, work, lambda error: Share(partition, error=error))
    return (done[0] if done else None), share


class _Stretch:
    """A partition on its way from the log's start to its end, in as many parts as comparing takes."""

    def __init__(
        self, plan: ReplayPlan, partition: int, reader: Consumer, aggregate: Aggregate, folding: ReplayFold
    ) -> None:
        self.plan = plan
        self.partition = partition
        self.reader = reader
        self.aggregate = aggregate
        self.folding = folding
        self.position, self.end = plan.bounds[partition]

    def fold(self) -> Compared | None:
        """Fold it all, comparing on the way. A shard that is ahead of the end takes the replay with it."""
        shards, topics = self.plan.shards, self.plan.topics
        compared = None
        if shards is not None:
            compared = compare(shards, topics, self.partition, self.aggregate, self.folding, self._follow)
        self.fold_to(self.end)
        return compared

    def _follow(self, offset: int) -> None:
        """Fold to where a shard says it is; raises `ContradictionError` when the log does not go so far."""
        if offset > self.end:
            bounds = readers.bounds(
                self.plan.connection, self.plan.topics.events, [self.partition], "read_uncommitted"
            )
            _, high = bounds[self.partition]
            if offset > high:
                raise ContradictionError(
                    f"{self.plan.topics.events} partition {self.partition} ends at {high}, its shard is at {offset}",
                    "the topic was truncated or replaced: restore it",
                )
        self.fold_to(offset)

    def fold_to(self, end: int) -> None:
        """Go on to offset `end`; raises `ContradictionError` naming the record that cannot follow."""
        plan = self.plan
        topic = plan.topics.events
        if end <= self.position:
            return
        try:
            for records in readers.read_with(
                plan.connection, self.reader, topic, self.partition, self.position, end
            ):
                self.folding.fold(records)
        except RefoldError as error:
            place = f"--partition {self.partition} --from {error.offset}"
            raise ContradictionError(
                f"{topic} partition {self.partition} {error}",
                f"look at it: cqrs tail {plan.topics.aggregate} events {place} -n 1",
            ) from error
        self.position = end
