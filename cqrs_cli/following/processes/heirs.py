"""First positions of target partitions: only the owner of the parent partition writes them.

Otherwise the owner of a target partition could not distinguish two cases. A new process manager must skip past events
of the partition, but a process manager that has read the parent up to the split must read all of them.
"""

import time
from collections.abc import Mapping

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.repartitioning import Split
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.lineage_log import read_lineage
from cqrs_cli.ownership.claim import TERMINAL, Claim

#: Seconds between two checks for a split of the partition.
_LOOK_EVERY = 1.0


class TargetPartitions:
    """The target partitions of one owner's partition.

    The partition history is only read for aggregates with repartitionings.
    """

    def __init__(
        self, plan: ProcessPlan, subscription: Subscription, positions: Mapping[bytes, ProcessPosition]
    ) -> None:
        """`positions`: the recorded positions, which the owner has read after its fence."""
        self._plan, self._source = plan, subscription.source
        self._topic = plan.events[subscription.source.topic]
        self._recorded = positions.keys()
        self._lineage = self._read()
        self._looked = time.monotonic()
        self._waiting = self._without_position(self._children())

    def awaits_parent(self) -> bool:
        """Return True for a target partition: it has no events before its parent's split."""
        return self._topic.is_inherited(self._source.partition)

    def begun_at_end(self) -> dict[EventPartition, ProcessPosition]:
        """Return the first positions of target partitions for a new process manager that starts at the end of the log.

        The positions are after the last event of each target partition. The caller has measured the end of its own
        partition before, so a later split is after this end.
        """
        heirs = self._without_position(self._born_of(self._source.partition))
        if not heirs:
            return {}
        ends = readers.bounds(self._plan.connection, self._source.topic, [one.partition for one in heirs])
        self._waiting -= heirs
        return {one: self._first(ends[one.partition][1]) for one in heirs}

    def due(self, position: int) -> dict[EventPartition, ProcessPosition]:
        """Return the first positions of pending target partitions whose split is at or before `position`, each once."""
        if not self._waiting:
            return {}
        births = {one: self._lineage.birth(one.partition) for one in self._waiting}
        if None in births.values() and time.monotonic() - self._looked > _LOOK_EVERY:
            self._lineage, self._looked = self._read(), time.monotonic()
        begin = {one for one, split in births.items() if split is not None and split.events <= position}
        self._waiting -= begin
        return {one: self._first(0) for one in begin}

    def _read(self) -> PartitionLineage:
        topic, count = self._source.topics, self._topic.partitions
        if not self._topic.has_grown:
            return PartitionLineage((count,))
        return read_lineage(self._plan.connection, topic, count)

    def _children(self) -> list[int]:
        """The partitions that get their first keys from this one, now or later."""
        mine, count = self._source.partition, self._topic.partitions
        return [one for one in range(count) if self._lineage.parent(one) == mine]

    def _born_of(self, partition: int) -> list[int]:
        """The partitions that have keys of this one by now, directly or through other partitions."""
        splits: list[list[Split]] = [[*self._lineage.ancestry(one)] for one in range(self._topic.partitions)]
        return [one for one, path in enumerate(splits) if partition in {split.partition for split in path}]

    def _without_position(self, partitions: list[int]) -> set[EventPartition]:
        sources = {self._source._replace(partition=one) for one in partitions}
        return {one for one in sources if position_key(one) not in self._recorded}

    def _first(self, offset: int) -> ProcessPosition:
        """Return a position without a current owner: its first owner starts as after a run that has ended."""
        topic = self._topic
        return ProcessPosition(offset, Claim(0, "", TERMINAL, TERMINAL, 0, topic.topic_id, topic.partitions))
