"""Estimates the work of a repartitioning, for `cqrs repartition`."""

from collections import Counter
from typing import NamedTuple

from cqrs_cli.client.queries.deferred import deferred_commands
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.deciding.repartition import PlannedRepartitioning
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics

#: Events per second that two cores read, fold and write into shards, as measured in docs/operations.md, Sizes.
FOLDED_PER_SECOND = 160_000


class KeyHandover(NamedTuple):
    """A partition that will hand over keys to its children."""

    partition: int
    children: tuple[int, ...]
    events: int  # estimated number of events of the moving keys
    deferred: int  # number of deferred commands of the moving keys


class RepartitioningWork(NamedTuple):
    """The partitions that hand over keys, and the number of events to read."""

    moving: tuple[KeyHandover, ...]
    #: Number of events that are read to build all shards. A child also reads its parents' events.
    events_to_read: int

    @property
    def seconds(self) -> float:
        """The time that two cores need to build the shards."""
        return self.events_to_read / FOLDED_PER_SECOND


def repartitioning_work(
    connection: Connection, topics: Topics, planned: PlannedRepartitioning
) -> RepartitioningWork:
    """Return the work until each partition has split to the planned partition count.

    Numbers of events are estimated from offsets: all keys are assumed to have the same number of events.
    """
    key_space, requested_count = planned.key_space, planned.after
    existing_partitions = range(readers.partition_count(connection, topics.events))
    event_offset_counts = {
        partition: end - start
        for partition, (start, end) in readers.bounds(connection, topics.events, existing_partitions).items()
    }
    active_counts = {
        partition: count
        for partition in key_space.partitions
        if (count := key_space.active_count(partition)) is not None
    }
    current_partition_by_target = [
        max(number for number in key_space.partitions_of(target) if number in active_counts)
        for target in key_space.partitions
    ]

    def target_partition(entry: Deferral) -> int:
        return key_space.producer_partition(entry.subject.encode())

    entries = deferred_commands(
        connection,
        topics,
        key_space.partitioner,
        lambda entry: current_partition_by_target[target_partition(entry)] != target_partition(entry),
    )
    deferred = Counter(current_partition_by_target[target_partition(entry)] for entry in entries)
    moving = tuple(
        KeyHandover(
            partition,
            tuple(key_space.requested_children(partition)),
            round(event_offset_counts.get(partition, 0) * (1 - count / requested_count)),
            deferred[partition],
        )
        for partition, count in active_counts.items()
        if count < requested_count
    )
    return RepartitioningWork(
        moving,
        sum(
            event_offset_counts.get(number, 0)
            for target in key_space.partitions
            for number in key_space.partitions_of(target)
        ),
    )
