"""The task of a replay on a worker: read one partition's events with librdkafka, and fold them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any

from confluent_kafka import Message

from cqrs_cli.client.codecs import decrypting_codec
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import bulk_consumer
from cqrs_cli.kafka.message_decoding import decode_messages
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.registry import load
from cqrs_cli.scans.guarded import guarded
from cqrs_cli.scans.plan import KeyScanPlan
from cqrs_cli.scans.replay.fold import EMPTY_TOTAL, ReplayFold, ReplayFoldError, Total
from cqrs_cli.scans.replay.limit import MemoryLimit
from cqrs_cli.scans.replay.parts import are_in_part, part_of
from cqrs_cli.scans.replay.progress import ReplayProgress
from cqrs_cli.system.memory import memory_share
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import REPORT_INTERVAL

#: A number above all offsets. A replay of several log segments encodes a position as one number:
#: segment number × factor + offset.
_SEGMENT_FACTOR = 1 << 52


@dataclass(frozen=True, slots=True)
class ReplayPlan(KeyScanPlan):
    """A `KeyScanPlan` with the options of a replay."""

    until: str | None = None  # RFC 3339 in UTC with milliseconds
    parts: int = 1  # tasks per partition: each task reads all events, and folds a part of the aggregates
    #: Bytes of memory per task before it spills; None: the task's share of the machine.
    memory_limit: int | None = None
    report_address: Address | None = None  # where tasks send progress reports
    report_interval: float = REPORT_INTERVAL  # seconds between two reports
    #: True: decrypt personal fields; False: redact them. The digests are the same.
    with_personal_values: bool = False

    @property
    def tasks(self) -> range:
        """The task numbers. The `parts` tasks of a partition have consecutive numbers."""
        return range(len(self.bounds) * self.parts)

    def partition(self, task: int) -> int:
        """Return the partition whose keys a task folds."""
        return task // self.parts


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of one task: a total, or the error that ends the replay."""

    partition: int
    total: Total = EMPTY_TOTAL
    error: CqrsError | None = None


def replay_part(plan: ReplayPlan, task: int) -> ReplayResult:
    """Return the total of a part. Returns an error as a value, so that no Spark task fails."""
    partition = plan.partition(task)
    log = PartitionLog(plan.connection, plan.topics, partition)

    def work() -> ReplayResult:
        with located_errors(plan, task), closing(_fold(plan, log, task)) as fold:
            return ReplayResult(partition, fold.total())

    return guarded(
        plan.connection, log.log_name("events"), work, lambda error: ReplayResult(partition, error=error)
    )


def fold_part(plan: ReplayPlan, task: int) -> tuple[ReplayFold | None, ReplayResult]:
    """Fold all aggregates of a part. After an error the fold is None, and the result has the error.

    The caller reads the fold inside `located_errors`, and closes it.
    """
    partition = plan.partition(task)
    log = PartitionLog(plan.connection, plan.topics, partition)
    folds: list[ReplayFold] = []

    def work() -> ReplayResult:
        with located_errors(plan, task):
            folds.append(_fold(plan, log, task))
        return ReplayResult(partition)

    result = guarded(
        plan.connection, log.log_name("events"), work, lambda error: ReplayResult(partition, error=error)
    )
    return (folds[0] if folds else None), result


@contextmanager
def located_errors(plan: ReplayPlan, task: int) -> Iterator[None]:
    """Convert `ReplayFoldError` into a `ContradictionError` with the position of the record."""
    try:
        yield
    except ReplayFoldError as error:
        number, offset = divmod(error.offset, _SEGMENT_FACTOR)
        raise plan.segments(plan.partition(task))[number].log.fault("events", offset, error.reason) from error


def _fold(plan: ReplayPlan, log: PartitionLog, task: int) -> ReplayFold:
    """Fold a task's events. The fold gets librdkafka's messages, because `Record` objects would double the cost."""
    aggregate = load(plan.topics.aggregate, plan.package, plan.root)
    limit = MemoryLimit(memory_share() if plan.memory_limit is None else plan.memory_limit)
    part, progress = (
        part_of(task % plan.parts, plan.parts),
        ReplayProgress(plan.report_address, task, 0, plan.report_interval),
    )
    fold = ReplayFold(
        aggregate,
        plan.until,
        limit,
        part,
        progress,
        plan.with_personal_values and aggregate.has_personal_fields,
    )
    try:
        with closing(bulk_consumer(log.connection)) as reader, closing(_open_codec(plan, aggregate)) as codec:
            offsets_done = 0
            for segment_number, segment in enumerate(plan.segments(plan.partition(task))):
                progress.start_segment(segment_number * _SEGMENT_FACTOR + segment.start - offsets_done)
                fetched = segment.log.messages_with(reader, "events", segment.start, segment.end)
                for messages in decode_messages(codec, plan.topics.events, segment.log.partition, fetched):
                    if plan.parts > 1:
                        messages = list(compress(messages, are_in_part(map(Message.key, messages), part)))
                    fold.fold(list(map(Message.value, messages)), _position_of(segment_number, messages))
                offsets_done += segment.end - segment.start
            codec.check_no_lost_keys()
    except BaseException:
        fold.close()
        raise
    return fold


def _open_codec(plan: ReplayPlan, aggregate: Aggregate) -> RecordCodec:
    """Return the codec of events. Without `plan.with_personal_values` events stay encrypted.

    The digests are the same in both cases, because `evolve` must not depend on personal values (law 7 in
    `cqrs_cli.testing`).
    """
    if not plan.with_personal_values:
        return plan.connection.payload_codec()
    return decrypting_codec(plan.connection, plan.topics, aggregate)


def _position_of(segment: int, messages: Sequence[Any]) -> Callable[[int], int]:
    """Return a function from a message's index to its position, as described at `_SEGMENT_FACTOR`."""
    return lambda index: segment * _SEGMENT_FACTOR + int(messages[index].offset())
