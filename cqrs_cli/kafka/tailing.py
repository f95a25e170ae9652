"""Reads several partitions of a topic in the order of timestamps: ranges, the last records, and new records."""

import heapq
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from confluent_kafka import Message, TopicPartition

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import PayloadUnavailableError, UsageError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topic_identity import TopicIdentity
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.leaders import assign
from cqrs_cli.kafka.records import records_of
from cqrs_cli.kafka.topics.partitioner import Partitioner, partition_for
from cqrs_cli.settings.moments import parse_moment

#: (partition, record in this partition).
PartitionRecord = tuple[int, Record]

#: Returns True for a record to keep.
RecordFilter = Callable[[Record], bool]

#: Partition → (start, end) offsets.
Bounds = Mapping[int, tuple[int, int]]

#: Limit in KiB for the total size of the queues of all consumers in a merge.
_QUEUE_KIB = 64 * 1024

#: Number of records whose data are downloaded together.
_RECORDS_PER_DOWNLOAD = 100


class Origin(NamedTuple):
    """The start of a read."""

    kind: str  # `beginning`, `end`, `offset` or `time`
    number: int = 0  # the offset, or the time in ms since the epoch

    @classmethod
    def parse(cls, text: str) -> "Origin":
        """Parse `beginning`, `end`, an offset or a moment; raises `ValueError` for any other text."""
        if text in ("beginning", "end"):
            return cls(text)
        if text.isascii() and text.isdigit() and len(text) < 20:
            return cls("offset", int(text))
        return cls("time", parse_moment(text))


def tail_bounds(
    connection: Cluster,
    topic: str,
    origin: Origin,
    key: bytes | None,
    partitioner: Partitioner,
    only_partitions: Collection[int] | None = None,
) -> dict[int, tuple[int, int]]:
    """Return partition → (start, committed end), the ranges to read. `only_partitions`: the partitions to read; None:
    all partitions. `key`: read only the partition of this key; None: all keys.

    Raises `ConfigurationError` if the topic does not exist, `UsageError` if a partition does not exist.
    """
    count = readers.partition_count(connection, topic)
    if unknown_partitions := sorted(partition for partition in only_partitions or () if partition >= count):
        raise UsageError(f"{topic} has no partition {unknown_partitions[0]}", f"it has 0 to {count - 1}")
    key_partition = None if key is None else partition_for(partitioner, key, count)
    candidates = range(count) if key_partition is None else [key_partition]
    partitions = [
        partition for partition in candidates if not only_partitions or partition in only_partitions
    ]
    bounds = readers.bounds(connection, topic, partitions)
    return {
        partition: (_start(connection, topic, partition, low, end, origin), end)
        for partition, (low, end) in bounds.items()
    }


def _start(connection: Cluster, topic: str, partition: int, low: int, end: int, origin: Origin) -> int:
    """Return the start of the range to read in a partition. `low`: the log start. `end`: the end of the range."""
    match origin.kind:
        case "beginning":
            return low
        case "offset":
            return min(max(low, origin.number), end)
        case "time":
            offset = readers.offset_at(connection, topic, partition, origin.number)
            return end if offset is None else min(offset, end)
    return end


def merge_by_time(
    connection: Cluster, topic: str, ranges: Bounds, keep: RecordFilter
) -> Generator[PartitionRecord, None, None]:
    """Yield all records within `ranges` that pass `keep`, merged by timestamp. The records of a partition stay in log
    order.
    """
    queue_kib = max(1024, _QUEUE_KIB // max(1, len(ranges)))
    with ExitStack() as stack:
        streams = []
        for partition, (start, end) in ranges.items():
            if start < end:
                records = _read_partition(connection, topic, partition, start, end, keep, queue_kib)
                streams.append(stack.enter_context(closing(records)))
        yield from heapq.merge(*streams, key=_time_order)


def _time_order(partition_record: PartitionRecord) -> tuple[int, int]:
    """Return the sort key of a record: its timestamp, then its partition."""
    partition, record = partition_record
    return record.timestamp, partition


def _read_partition(
    connection: Cluster, topic: str, partition: int, start: int, end: int, keep: RecordFilter, queue_kib: int
) -> Generator[PartitionRecord, None, None]:
    reader = clients.consumer(connection, queued_max_messages_kbytes=queue_kib, queued_min_messages=50_000)
    try:
        for records in readers.read_with(connection, reader, topic, partition, start, end):
            yield from ((partition, record) for record in records if keep(record))
    finally:
        reader.close()


def last_records(
    connection: Cluster, topic: str, ranges: Bounds, keep: RecordFilter, count: int
) -> list[PartitionRecord]:
    """Return the last `count` records within `ranges` that pass `keep`, in the order of timestamps."""
    records: list[PartitionRecord] = []
    for partition, (start, end) in ranges.items():
        records += (
            (partition, record)
            for record in _last_of_partition(connection, topic, partition, start, end, keep, count)
        )
    return sorted(records, key=_time_order)[-count:] if count else []


def _last_of_partition(
    connection: Cluster, topic: str, partition: int, start: int, end: int, keep: RecordFilter, count: int
) -> list[Record]:
    """Return the last `count` records of one partition that pass `keep`. It reads ranges of growing length, from the
    end backwards.
    """
    stride = 4 * count + 16
    records: list[Record] = []
    low = end
    while low > start and len(records) < count:
        high, low = low, max(start, low - stride)
        batches = readers.read(connection, topic, partition, low, high)
        records = [record for batch in batches for record in batch if keep(record)] + records
        stride *= 8
    return records[-count:] if count else []


def follow_records(
    connection: Cluster,
    topic: str,
    ends: Mapping[int, int],
    keep: RecordFilter,
    report: Callable[[str], None],
    identity: TopicIdentity,
) -> Generator[list[PartitionRecord], None, None]:
    """Yield batches of new records as they are committed, without end. A batch may be empty. `ends`: partition → offset
    from which to read.

    While no broker answers, it waits, and calls `report` once. Raises the errors of `identity.check_if_due`.
    """
    reader = clients.consumer(connection, on_error=lambda error: follower.handle_client_error(error))
    follower = readers.waiting_follower(connection, reader, report)
    try:
        assign(reader, [TopicPartition(topic, partition, end) for partition, end in ends.items()])
        while True:
            messages = follower.poll()
            identity.check_if_due()
            partitions = map(Message.partition, messages)
            yield [
                (partition or 0, record)
                for partition, record in zip(partitions, records_of(messages), strict=True)
                if keep(record)
            ]
    finally:
        reader.close()


def decode_by_partition(
    codec: RecordCodec, topic: str, batch: list[PartitionRecord]
) -> Iterator[list[PartitionRecord]]:
    """Yield the decoded events of a batch. A batch with large data is yielded in several batches.

    If a payload is missing, `PayloadUnavailableError` is raised after the events of the other partitions.
    """
    if not batch:
        yield batch
        return
    errors: dict[int, PayloadUnavailableError] = {}
    for partition, group in groupby(batch, itemgetter(0)):
        remaining_records = [record for _, record in group]
        while remaining_records and partition not in errors:
            try:
                decoded, remaining_records = codec.decode(topic, partition, remaining_records)
            except PayloadUnavailableError as error:
                errors[partition] = error
            else:
                yield [(partition, record) for record in decoded]
    for first_error in errors.values():
        raise first_error


def decode_in_order(
    codec: RecordCodec, topic: str, records: Iterable[PartitionRecord]
) -> Iterator[PartitionRecord]:
    """Yield the decoded records of any topic, in order. Raises `PayloadUnavailableError` if an event's payload is
    missing.
    """
    if codec.is_identity:
        yield from records
        return
    remaining_records = iter(records)
    while batch := list(islice(remaining_records, _RECORDS_PER_DOWNLOAD)):
        for partition, group in groupby(batch, itemgetter(0)):
            for decoded in codec.decode_batches(topic, partition, [[record for _, record in group]]):
                yield from ((partition, record) for record in decoded)
