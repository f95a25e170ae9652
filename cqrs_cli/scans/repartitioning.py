"""The work of a repartitioning: the partitions that hand over keys, and how many events must be read."""

from collections import Counter
from typing import NamedTuple

from cqrs_cli.client.queries.deferred import deferred_commands
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace

#: Events per second that two cores read, fold and write into shards, measured with many millions of events:
#: docs/operations.md, Sizes.
FOLDED_PER_SECOND = 160_000


class MovingKeys(NamedTuple):
    """A partition that will hand over keys."""

    partition: int
    children: tuple[int, ...]
    events: int  # estimated number of events of these keys, from the children's share
    deferred: int  # deferred commands of these keys


class RepartitioningWork(NamedTuple):
    """The partitions that hand over keys, and the events to read.

    `events_to_read`: the number of events that must be read to build all shards. A child partition reads its parents'
    logs, too.
    """

    moving: tuple[MovingKeys, ...]
    events_to_read: int

    @property
    def seconds(self) -> float:
        """The time that two cores need to build the shards."""
        return self.events_to_read / FOLDED_PER_SECOND


def repartitioning_work(connection: Connection, topics: Topics, key_space: KeySpace) -> RepartitioningWork:
    """Return the work that is left until each partition has split to the requested partition count.

    The number of events is estimated from offsets.
    """
    requested_count = len(key_space.partitions)
    numbers = range(readers.partition_count(connection, topics.events))
    sizes = {
        partition: end - start
        for partition, (start, end) in readers.bounds(connection, topics.events, numbers).items()
    }
    count_by_partition = {
        partition: count
        for partition in key_space.partitions
        if (count := key_space.active_count(partition)) is not None
    }
    current_partition = [
        max(number for number in key_space.partitions_of(target) if number in count_by_partition)
        for target in key_space.partitions
    ]

    def target_of(entry: Deferral) -> int:
        return key_space.target_of(entry.subject.encode())

    entries = deferred_commands(
        connection,
        topics,
        key_space.partitioner,
        lambda entry: current_partition[target_of(entry)] != target_of(entry),
    )
    deferred = Counter(current_partition[target_of(entry)] for entry in entries)
    moving = tuple(
        MovingKeys(
            partition,
            tuple(key_space.requested_targets(partition)),
            round(sizes.get(partition, 0) * (1 - count / requested_count)),
            deferred[partition],
        )
        for partition, count in count_by_partition.items()
        if count < requested_count
    )
    return RepartitioningWork(
        moving,
        sum(
            sizes.get(number, 0)
            for target in key_space.partitions
            for number in key_space.partitions_of(target)
        ),
    )
