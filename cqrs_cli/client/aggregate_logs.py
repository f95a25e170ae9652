"""The logs of an aggregate: the partitions that hold the records of its keys, also after a repartitioning.

| a reader of | uses the key space |
|---|---|
| events | with the visible splits: before a split is visible, its children have no events |
| deferred commands | of the last requested partition count, also while the topics are being extended |
| all logs together | with every split: it waits for a split in an open transaction |
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import UsageError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import AggregateTopics, Topics
from cqrs_cli.keyspace.key_space import KeySpace, read_key_space, requested_key_space, visible_key_space
from cqrs_cli.ownership.complete_events import complete_bounds


@dataclass(frozen=True, slots=True)
class AggregateLogs:
    """All logs of an aggregate: the base of the plans whose tasks read the logs together."""

    connection: Connection
    aggregate_topics: AggregateTopics
    key_space: KeySpace  # with every split when the plan was created

    def read_key_space(self) -> KeySpace:
        """Return the current key space, with splits since the plan was created."""
        return complete_key_space(self.connection, self.aggregate_topics, self.key_space.partitioner)


def complete_key_space(
    connection: Connection, aggregate_topics: AggregateTopics, partitioner: Partitioner
) -> KeySpace:
    """Return the key space with every split. Raises `ConfigurationError` if the partition history does not contain the
    partition count of the topics.
    """
    return read_key_space(connection, aggregate_topics.topics, partitioner, aggregate_topics.partitions)


class EventRange(NamedTuple):
    """A range of records in a partition of the events topic: start ≤ offset < end."""

    topic: str
    partition: int
    start: int
    end: int


def find_ranges(
    connection: Connection,
    topics: Topics,
    key: bytes,
    partitioner: Partitioner,
    positions: Mapping[int, int] | None = None,
) -> list[EventRange]:
    """Return the ranges that may hold this key's committed events, in the order of the events.

    `positions`: partition → the offset at which its range ends; by default the end of the log. Raises `UsageError` for
    positions outside the log, `ContradictionError` if events were deleted.
    """
    _, bounds = find_events(connection, topics, partitioner, positions, key)
    return [EventRange(topics.events, partition, start, end) for partition, (start, end) in bounds.items()]


def find_events(
    connection: Connection,
    topics: Topics,
    partitioner: Partitioner,
    positions: Mapping[int, int] | None = None,
    key: bytes | None = None,
) -> tuple[KeySpace, dict[int, tuple[int, int]]]:
    """Return the key space of an aggregate, and partition → (start, end) of its committed events.

    With `key`, only the partitions that may hold this key's events are returned, in the order of the events.
    `positions` and the errors are as in `find_ranges`.
    """
    count = readers.partition_count(connection, topics.events)
    key_space = visible_key_space(connection, topics, partitioner, count).as_of(positions)
    partitions = key_space.partitions if key is None else key_space.partitions_with(key)
    bounds = complete_bounds(connection, topics, partitions)
    return key_space, bounds if positions is None else bounds_until(topics.events, bounds, positions)


def bounds_until(
    topic: str, bounds: Mapping[int, tuple[int, int]], positions: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Return the bounds of partitions (partition → start, end), with the end from `positions` (partition → offset).

    Raises `UsageError` for a position outside the log, and for a partition without a position.
    """
    result = {}
    for partition, (start, end) in bounds.items():
        if (position := positions.get(partition)) is None:
            raise UsageError(
                f"there is no offset for {topic} partition {partition}", "give one for each partition"
            )
        if not start <= position <= end:
            raise UsageError(
                f"{topic} partition {partition} has no offset {position}: it reaches from {start} to {end}",
                "give the offsets of this topic",
            )
        result[partition] = start, position
    return result


def read_records(
    connection: Connection,
    key: bytes,
    ranges: Iterable[EventRange],
    codec: RecordCodec | None = None,
    raise_if_cancelled: Callable[[], None] = lambda: None,
) -> Iterator[tuple[EventRange, Record]]:
    """Yield the events with this key, each with its range, in the order of the log. `codec` decodes them; by default,
    personal fields stay encrypted. `raise_if_cancelled` is called for each batch; its error cancels the read.

    Raises `ContradictionError` after the last event if the aggregate's data key was lost.
    """

    def select_own(records: list[Record]) -> list[Record]:
        raise_if_cancelled()
        return [record for record in records if record.key == key]

    codec = codec or connection.payload_codec()
    for event_range in ranges:
        own_records = map(select_own, readers.read(connection, *event_range))
        for records in codec.decode_batches(event_range.topic, event_range.partition, own_records):
            for record in records:
                yield event_range, record
    codec.check_no_lost_keys()


def deferred_logs(
    connection: Connection, topics: Topics, partitioner: Partitioner
) -> Iterator[tuple[PartitionLog, Callable[[bytes], bool]]]:
    """Yield each partition of the deferred topic, with a function that returns True for the keys whose entries in this
    partition are valid.
    """
    count = readers.partition_count(connection, topics.deferred)
    key_space = requested_key_space(connection, topics, partitioner, count)
    for partition in range(count):
        yield PartitionLog(connection, topics, partition), partial(key_space.holds_deferred, partition)
