"""The growth of an aggregate's partitions, for those who follow its events: the order in which partitions come."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.growth import Split
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.lineage_log import read_lineage
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics


class FollowedLineage:
    """Read by the follower's thread. Streams ask for what is read by then: they must not wait for a broker."""

    def __init__(self, connection: Connection, topics: Topics, log: Callable[[int], PartitionLog]) -> None:
        self._connection, self._topics, self._log = connection, topics, log
        self._first = 0
        self._now: PartitionLineage | None = None  # its splits stand behind events: positions do, too
        self._behind: dict[Split, int] = {}  # the offset behind the last event below it

    def learn(self, count: int) -> PartitionLineage:
        """The lineage of an aggregate that has `count` partitions. Without a log it has those that it had at first."""
        self._first = self._first or count
        if self._now is None and not readers.exists(self._connection, self._topics.lineage):
            return PartitionLineage((self._first,))
        now = read_lineage(self._connection, self._topics, count)
        for split in now.splits:
            if split not in self._behind:  # as the owner wrote it, it may stand behind markers
                last = self._log(split.partition).last_record("events", 0, split.events)
                self._behind[split] = 0 if last is None else last.offset + 1
        behind = tuple(replace(split, events=self._behind[split]) for split in now.splits)
        self._now = PartitionLineage(now.counts, behind, now.begun)
        return now

    def parent(self, partition: int) -> int | None:
        """The partition that had its keys before; None for one of the first."""
        return None if self._now is None else self._now.parent(partition)

    def may_begin(self, partition: int, positions: Mapping[int, int]) -> bool:
        """True if whoever has the events of each partition up to there has all that come before those of this one."""
        return self._now is None or self._now.may_begin(partition, positions)
