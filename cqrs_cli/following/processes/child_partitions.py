"""The first position of a child partition, which the owner of its parent partition writes.

The owner of the child partition could not distinguish two cases. A new process manager must skip the existing events of
the child, but a process manager that has read the parent up to the split must read all events of the child.
"""

from collections.abc import Iterable, Mapping

from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.ownership.claim import TERMINAL, Claim

#: Seconds between two checks for a split of the partition.
_HISTORY_INTERVAL = 1.0


class ChildPartitions:
    """The child partitions of one owner's partition, and their first positions."""

    def __init__(
        self, plan: ProcessPlan, subscription: Subscription, positions: Mapping[bytes, ProcessPosition]
    ) -> None:
        """`positions`: the recorded positions by key (`position_key`), read after the owner's fence."""
        self._plan, self._source = plan, subscription.source
        self._topic = plan.events_topics[subscription.source.topic]
        self._recorded_offsets = {
            partition: position.offset
            for partition in range(self._topic.partitions)
            if (position := positions.get(position_key(self._source._replace(partition=partition))))
            is not None
        }
        self._key_space = plan.follow_key_space(self._source, _HISTORY_INTERVAL)
        self._pending = self._without_position(
            partition
            for partition in range(self._topic.partitions)
            if self._key_space.current.parent(partition) == self._source.partition
        )

    def is_child(self) -> bool:
        """Return True for a child partition: it has no events before its parent's split."""
        return self._topic.is_child_partition(self._source.partition)

    def start_positions_at_end(self) -> dict[EventPartition, ProcessPosition]:
        """Return the first positions of the descendants, for a new process manager that starts at the end of the log.

        Each position is after the last event of the descendant. The caller must have read the end of its own partition
        before, so that a split in between is after this end, and is handled by `due_positions`.
        """
        key_space = self._key_space.current
        descendants = self._without_position(  # they have keys of the partition, directly or through other partitions
            partition
            for partition in range(self._topic.partitions)
            if not key_space.is_pending(partition)
            and self._source.partition in key_space.partitions_of(partition)[:-1]
        )
        if not descendants:
            return {}
        ends = readers.bounds(
            self._plan.connection, self._source.topic, [source.partition for source in descendants]
        )
        self._pending -= descendants
        return {source: self._first_position(ends[source.partition][1]) for source in descendants}

    def due_positions(self, position: int) -> dict[EventPartition, ProcessPosition]:
        """Return the first positions of the child partitions whose split is at or before `position`. Each child is
        returned only once.
        """
        offsets = {**self._recorded_offsets, self._source.partition: position}
        due = {
            source for source in self._pending if self._key_space.is_ready(source.partition, lambda: offsets)
        }
        self._pending -= due
        return {source: self._first_position(0) for source in due}

    def _without_position(self, partitions: Iterable[int]) -> set[EventPartition]:
        return {
            self._source._replace(partition=partition)
            for partition in partitions
            if partition not in self._recorded_offsets
        }

    def _first_position(self, offset: int) -> ProcessPosition:
        """Return a position with a terminal claim, so that the child's first owner need not wait for another owner."""
        topic = self._topic
        claim = Claim(0, "", TERMINAL, TERMINAL, 0, topic.topic_id, topic.partitions)
        return ProcessPosition(offset, claim, start=offset)
