"""The partitions that have their keys from one that a process hears: its owner alone writes their first positions.

Without that, a child's owner could not tell a process that has heard everything of its keys from one that is new: it
would skip what is new to the one, or react to the past of the other.
"""

import time
from collections.abc import Mapping

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.growth import Split
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.lineage_log import read_lineage
from cqrs_cli.ownership.claim import TERMINAL, Claim

#: Seconds between two looks whether the partition has split.
_LOOK_EVERY = 1.0


class Heirs:
    """One owner's view of them. The lineage is asked for an aggregate that has grown, and only then."""

    def __init__(
        self, plan: ProcessPlan, subscription: Subscription, positions: Mapping[bytes, ProcessPosition]
    ) -> None:
        """`positions`: those that are recorded, as the owner has read them under its fence."""
        self._plan, self._source = plan, subscription.source
        self._topic = plan.events[subscription.source.topic]
        self._recorded = positions.keys()
        self._lineage = self._read()
        self._looked = time.monotonic()
        self._waiting = self._without_position(self._children())

    def awaits_parent(self) -> bool:
        """True for a partition that came by a growth: it has no events of its own before it is born."""
        return self._topic.is_inherited(self._source.partition)

    def begun_at_end(self) -> dict[EventPartition, ProcessPosition]:
        """The positions of a new process that begins at the end, in all partitions that have keys from this one: behind
        their last event. The owner's own end has been measured before: whoever splits later, splits behind.
        """
        heirs = self._without_position(self._born_of(self._source.partition))
        if not heirs:
            return {}
        ends = readers.bounds(self._plan.connection, self._source.topic, [one.partition for one in heirs])
        self._waiting -= heirs
        return {one: self._first(ends[one.partition][1]) for one in heirs}

    def due(self, position: int) -> dict[EventPartition, ProcessPosition]:
        """The positions of the partitions that may begin, now that this one is heard up to there; each is told once."""
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
        """The partitions that get their first keys from this one, sooner or later."""
        mine, count = self._source.partition, self._topic.partitions
        return [one for one in range(count) if self._lineage.parent(one) == mine]

    def _born_of(self, partition: int) -> list[int]:
        """The partitions that have keys from this one by now, through others, too."""
        splits: list[list[Split]] = [[*self._lineage.ancestry(one)] for one in range(self._topic.partitions)]
        return [one for one, path in enumerate(splits) if partition in {split.partition for split in path}]

    def _without_position(self, partitions: list[int]) -> set[EventPartition]:
        sources = {self._source._replace(partition=one) for one in partitions}
        return {one for one in sources if position_key(one) not in self._recorded}

    def _first(self, offset: int) -> ProcessPosition:
        """A position that nobody claims yet: its owner begins as after a run that has ended."""
        topic = self._topic
        return ProcessPosition(offset, Claim(0, "", TERMINAL, TERMINAL, 0, topic.topic_id, topic.partitions))
