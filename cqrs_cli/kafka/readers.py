"""Bounded reads of partitions. They end by position, since offsets have gaps (transaction markers, aborted records)."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka.clients import (
    REQUEST_TIMEOUT,
    Isolation,
    consumer,
    described,
    failed,
    is_denied,
)
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.consumer_pool import ConsumerPool, borrowed
from cqrs_cli.kafka.error_kinds import ErrorKind, error_kind
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.leaders import ask_leader, assign
from cqrs_cli.kafka.records import records_of
from cqrs_cli.kafka.topics.acls import RequiredAcl

#: Seconds that a log must look too short before a reader believes it: a broker that has just become the leader may show
#: less of the log than it has.
BELIEVED_AFTER = 3.0

_T = TypeVar("_T")


class StalledError(UnavailableError):
    """Records before the requested end stay invisible: an open transaction hides them, or the broker is gone."""


def partitions(connection: Cluster, topic: str) -> int:
    """Return the number of the topic's partitions; raises `ConfigurationError` if the topic does not exist."""
    found = _count(connection, topic)
    if not found:
        raise ConfigurationError(f"topic {topic} does not exist", "create it: cqrs init")
    return found


def exists(connection: Cluster, topic: str) -> bool:
    """True if the cluster has a topic of this name; raises `ConfigurationError` if an ACL is missing."""
    return _count(connection, topic) > 0


def _count(connection: Cluster, topic: str) -> int:
    """Return the number of the topic's partitions, 0 if it does not exist."""
    with closing(consumer(connection)) as probe:
        return count_with(connection, probe, topic)


def count_with(connection: Cluster, reader: Consumer, topic: str) -> int:
    """Return the number of the topic's partitions, 0 if it does not exist, with a given client."""
    found = described(connection, reader, topic).topics[topic]
    if found.error is not None and is_denied(found.error):
        raise RequiredAcl("Read", "topic", topic).denied()
    return 0 if found.error else len(found.partitions)


def bounds(
    connection: Cluster,
    topic: str,
    numbers: Iterable[int],
    isolation: Isolation = "read_committed",
    lender: ConsumerPool | None = None,
) -> dict[int, tuple[int, int]]:
    """Return (log start, end) by partition; end: the last stable offset, or the high watermark if read_uncommitted."""
    try:
        with borrowed(connection, lender, isolation) as probe:
            return {number: watermarks(probe, topic, number) for number in numbers}
    except KafkaException as error:
        raise failed(connection, error, RequiredAcl("Read", "topic", topic)) from error


def watermarks(reader: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return (log start, end) with the reader's isolation. Raises `KafkaException`, `MissingError`: unknown partition.

    Waits for a partition that is just getting its leader, as all partitions do when a broker has just started.
    """
    place = TopicPartition(topic, partition)
    low, high = _from_leader(
        reader, topic, partition, lambda timeout: reader.get_watermark_offsets(place, timeout=timeout)
    )
    return low, high


def _from_leader(reader: Consumer, topic: str, partition: int, ask: Callable[[float], _T]) -> _T:
    try:
        return ask_leader(reader, topic, ask, REQUEST_TIMEOUT)
    except KafkaException as error:
        if error_kind(error) is ErrorKind.MISSING:
            raise _missing(topic, partition) from error
        raise


def offset_at(
    connection: Cluster, topic: str, partition: int, timestamp: int, lender: ConsumerPool | None = None
) -> int | None:
    """Return the first offset whose record is not older than `timestamp` (ms); None if there is none."""
    try:
        with borrowed(connection, lender) as probe:
            return offset_with(probe, topic, partition, timestamp)
    except KafkaException as error:
        raise failed(connection, error, RequiredAcl("Read", "topic", topic)) from error


def offset_with(reader: Consumer, topic: str, partition: int, timestamp: int) -> int | None:
    """Return `offset_at`, with a given client. Raises `KafkaException`, `MissingError`: unknown partition."""
    place = TopicPartition(topic, partition, timestamp)
    (found,) = _from_leader(
        reader, topic, partition, lambda timeout: reader.offsets_for_times([place], timeout=timeout)
    )
    return found.offset if found.offset >= 0 else None


def read(
    connection: Cluster,
    topic: str,
    partition: int,
    start: int,
    end: int,
    isolation: Isolation = "read_committed",
    batch: int = 10_000,
    lender: ConsumerPool | None = None,
) -> Iterator[list[Record]]:
    """Yield all visible records with start ≤ offset < end, in batches and unchanged.

    Raises `StalledError` if an open transaction hides the end, `UnavailableError` without a broker.
    """
    if start >= end:
        return
    with borrowed(connection, lender, isolation) as reader:
        yield from read_with(connection, reader, topic, partition, start, end, batch)


def read_with(
    connection: Cluster,
    reader: Consumer,
    topic: str,
    partition: int,
    start: int,
    end: int,
    batch: int = 10_000,
    patience: float = REQUEST_TIMEOUT,
) -> Iterator[list[Record]]:
    """Yield records as `read` does, with a given client. `patience`: timeout in seconds without progress."""
    return map(records_of, messages_with(connection, reader, topic, partition, start, end, batch, patience))


def messages_with(
    connection: Cluster,
    reader: Consumer,
    topic: str,
    partition: int,
    start: int,
    end: int,
    batch: int = 10_000,
    patience: float = REQUEST_TIMEOUT,
) -> Iterator[list[Any]]:
    """Yield batches as `read_with` does, as librdkafka's messages."""
    assign(reader, [TopicPartition(topic, partition, start)])
    follower, place = Follower(reader, partial(read_failure, connection)), (topic, partition)
    deadline = time.monotonic() + patience
    position = start
    while position < end:
        messages = follower.poll(batch, patience=0.1)
        position = max(position, follower.ends.get(place, 0))
        if messages:
            position = max(position, messages[-1].offset() + 1)
            messages = [one for one in messages if one.offset() < end] if position > end else messages
        if messages:
            yield messages
            deadline = time.monotonic() + patience
        elif time.monotonic() > deadline:
            raise StalledError(
                f"{topic} partition {partition}: nothing to read at offset {position}, though the log ends at {end}",
                "an open transaction may hide it, or the broker is gone: cqrs doctor",
            )


def read_failure(connection: Cluster, topic: str, partition: int, error: KafkaError) -> Exception:
    """Return the error to raise for an error in place of a message."""
    if error_kind(error) is ErrorKind.MISSING:
        return _missing(topic, partition)
    if error_kind(error) is ErrorKind.GONE:
        return UnavailableError(
            f"{topic} partition {partition}: {error.str()}",
            "records were deleted while they were read, or that broker has just come back: try again",
        )
    return failed(connection, error, RequiredAcl("Read", "topic", topic))


def patient_follower(connection: Cluster, reader: Consumer, note: Callable[[str], None]) -> Follower:
    """Return a follower that waits for brokers that do not answer, and reports that once to `note`."""
    waiting = f"no answer from {connection.bootstrap_server}; still trying"
    return Follower(reader, partial(read_failure, connection), lambda: note(waiting))


class MissingError(ConfigurationError):
    """A partition that the brokers do not know. A broker that has just restarted may not know it yet."""


def _missing(topic: str, partition: int) -> MissingError:
    return MissingError(f"{topic} partition {partition} does not exist", "create it: cqrs init")


def first_record(
    connection: Cluster, topic: str, partition: int, start: int, end: int, lender: ConsumerPool | None = None
) -> Record | None:
    """Return the first committed record with start ≤ offset < end; None if there is none."""
    found = read(connection, topic, partition, start, end, lender=lender)
    return next((records[0] for records in found), None)


def last_record(
    connection: Cluster, topic: str, partition: int, start: int, end: int, lender: ConsumerPool | None = None
) -> Record | None:
    """Return the last committed record with start ≤ offset < end, or None. Reads backwards in growing strides.

    Raises `StalledError` if an open transaction may hide a later record.
    """
    stride = 16
    with borrowed(connection, lender) as reader:
        while end > start:
            low = max(start, end - stride)
            last = None
            for records in read_with(connection, reader, topic, partition, low, end):
                last = records[-1]
            if last is not None:
                return last
            end, stride = low, stride * 16
    return None
