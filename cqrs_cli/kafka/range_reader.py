"""Reads a few records of each of many partitions with one consumer, for the status."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.leaders import assign
from cqrs_cli.kafka.readers import read_error, stalled_error
from cqrs_cli.kafka.records import records_of


def read_ranges(
    connection: Cluster,
    reader: Consumer,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    timeout: float = REQUEST_TIMEOUT,
) -> dict[int, list[Record]]:
    """Return partition → its records within `ranges`. Memory holds all records, so they must be few.

    `ranges`: partition → (start, end), start ≤ offset < end. `timeout`: seconds without progress. Raises the errors of
    `read_with`. The leaders are looked up once for all partitions, because a lookup costs milliseconds of processor
    time for a topic of 1,000 partitions.
    """
    ends = {partition: end for partition, (start, end) in ranges.items() if start < end}
    messages: list[Any] = []
    if ends:
        assign(reader, [TopicPartition(topic, partition, ranges[partition][0]) for partition in ends])
    follower = Follower(reader, partial(read_error, connection), on_unreachable=lambda: None)
    deadline = time.monotonic() + timeout
    try:
        while ends:
            arrived = follower.poll(timeout=0.1)
            messages += arrived
            reached = {message.partition(): message.offset() + 1 for message in arrived}
            for partition, end in list(ends.items()):
                if max(reached.get(partition, 0), follower.ends.get((topic, partition), 0)) >= end:
                    del ends[partition]
            if arrived:
                deadline = time.monotonic() + timeout
            elif ends and time.monotonic() > deadline:
                partition = next(iter(ends))
                if follower.unreachable_error is not None:
                    raise read_error(connection, topic, partition, follower.unreachable_error)
                raise stalled_error(topic, partition, ranges[partition][0], ends[partition])
    finally:
        reader.unassign()
    records: dict[int, list[Record]] = {partition: [] for partition in ranges}
    for message, record in zip(messages, records_of(messages), strict=True):
        if record.offset < ranges[message.partition()][1]:
            records[message.partition()].append(record)
    return records
