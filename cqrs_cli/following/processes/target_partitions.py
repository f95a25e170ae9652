"""First positions of target partitions: only the owner of the parent partition writes them.

Otherwise the owner of a target partition could not distinguish two cases. A new process manager must skip past events
of the partition, but a process manager that has read the parent up to the split must read all of them.
"""

import time
from collections.abc import Mapping

from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.lineage_log import read_lineage
from cqrs_cli.keyspace.records import Split
from cqrs_cli.ownership.claim import TERMINAL, Claim

#: Seconds between two checks for a split of the partition.
_HISTORY_INTERVAL = 1.0


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
        self._recorded_keys = positions.keys()
        self._lineage = self._read_history()
        self._read_at = time.monotonic()
        self._pending = self._without_position(self._direct_targets())

    def is_target(self) -> bool:
        """Return True for a target partition: it has no events before its parent's split."""
        return self._topic.is_target_partition(self._source.partition)

    def start_positions_at_end(self) -> dict[EventPartition, ProcessPosition]:
        """Return the first positions of target partitions for a new process manager that starts at the end of the log.

        The positions are after the last event of each target partition. The caller has measured the end of its own
        partition before, so a later split is after this end.
        """
        descendants = self._without_position(self._descendants_of(self._source.partition))
        if not descendants:
            return {}
        ends = readers.bounds(
            self._plan.connection, self._source.topic, [source.partition for source in descendants]
        )
        self._pending -= descendants
        return {source: self._first_position(ends[source.partition][1]) for source in descendants}

    def due_positions(self, position: int) -> dict[EventPartition, ProcessPosition]:
        """Return the first positions of pending target partitions whose split is at or before `position`, each once."""
        if not self._pending:
            return {}
        splits_by_source = {
            source: self._lineage.split_creating(source.partition) for source in self._pending
        }
        if None in splits_by_source.values() and time.monotonic() - self._read_at > _HISTORY_INTERVAL:
            self._lineage, self._read_at = self._read_history(), time.monotonic()
        due = {
            source
            for source, split in splits_by_source.items()
            if split is not None and split.events <= position
        }
        self._pending -= due
        return {source: self._first_position(0) for source in due}

    def _read_history(self) -> PartitionLineage:
        topic, count = self._source.topics, self._topic.partitions
        if not self._topic.is_repartitioned:
            return PartitionLineage((count,))
        return read_lineage(self._plan.connection, topic, count)

    def _direct_targets(self) -> list[int]:
        """Return the partitions that get their first keys from the own partition, now or later."""
        own_partition, count = self._source.partition, self._topic.partitions
        return [target for target in range(count) if self._lineage.parent(target) == own_partition]

    def _descendants_of(self, partition: int) -> list[int]:
        """Return the partitions that have keys of `partition` by now, directly or through other partitions."""
        splits_by_target: list[list[Split]] = [
            [*self._lineage.inherited_splits(target)] for target in range(self._topic.partitions)
        ]
        return [
            target
            for target, splits in enumerate(splits_by_target)
            if partition in {split.partition for split in splits}
        ]

    def _without_position(self, partitions: list[int]) -> set[EventPartition]:
        sources = {self._source._replace(partition=source) for source in partitions}
        return {source for source in sources if position_key(source) not in self._recorded_keys}

    def _first_position(self, offset: int) -> ProcessPosition:
        """Return a position without a current owner: its first owner starts as after a run that has ended."""
        topic = self._topic
        claim = Claim(0, "", TERMINAL, TERMINAL, 0, topic.topic_id, topic.partitions)
        return ProcessPosition(offset, claim, start=offset)
