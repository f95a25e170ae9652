"""The work of a repartitioning: the partitions that hand over keys, and the sizes of the logs of these keys."""

from collections import Counter
from typing import NamedTuple

from cqrs_cli.client.queries.deferred import waiting
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.repartitioning import children_of
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner, target_partition
from cqrs_cli.kafka.topics.topics import Topics

#: Events per second that two cores read, fold and write into shards, measured with many millions of events:
#: docs/operations.md, Sizes.
FOLDED_PER_SECOND = 160_000


class MovingKeys(NamedTuple):
    """A partition that will hand over keys."""

    partition: int
    children: tuple[int, ...]
    events: int  # estimated number for these keys, by the children's share of partitions
    deferred: int  # deferred commands of these keys


class GrowthWork(NamedTuple):
    """`read`: the number of events to read to build all shards. A child partition reads its parents' logs, too."""

    moving: tuple[MovingKeys, ...]
    read: int

    @property
    def seconds(self) -> float:
        """The time that two cores need to build the shards."""
        return self.read / FOLDED_PER_SECOND


def growth_work(
    connection: Connection, topics: Topics, lineage: PartitionLineage, partitioner: Partitioner
) -> GrowthWork:
    """Return the work until each partition has split to the last count. Events are counted by their offsets."""
    last = lineage.counts[-1]
    numbers = range(readers.partition_count(connection, topics.events))
    sizes = {
        one: end - start for one, (start, end) in readers.bounds(connection, topics.events, numbers).items()
    }
    judging = {one: count for one in range(last) if (count := lineage.count(one)) is not None}
    holders = [max(one for one in lineage.chain(home) if one in judging) for home in range(last)]

    def home(entry: Deferral) -> int:
        return target_partition(partitioner, entry.subject.encode(), last)

    entries = waiting(connection, topics, partitioner, lambda one: holders[home(one)] != home(one))
    deferred = Counter(holders[home(one)] for one in entries)
    moving = tuple(
        MovingKeys(
            one,
            tuple(children_of(one, count, last)),
            round(sizes.get(one, 0) * (1 - count / last)),
            deferred[one],
        )
        for one, count in judging.items()
        if count < last
    )
    return GrowthWork(moving, sum(sizes.get(one, 0) for home in range(last) for one in lineage.chain(home)))
