"""The assigned keys of one partition, derived from the partition history of its aggregate."""

from collections.abc import Callable
from typing import NamedTuple

from cqrs_cli.kafka.topics.partitioner import KeyFilter, Partitioner, partition_function, producer_partition
from cqrs_cli.keyspace.lineage import PartitionLineage, Phase, Segment
from cqrs_cli.keyspace.records import Begun, LineageRecord, Split


class AssignedKeys(NamedTuple):
    """The assigned keys of a partition: the keys for which its owner decides."""

    lineage: PartitionLineage
    partition: int
    topic_partitions: int  # the number of partitions of all topics when the run was planned
    partitioner: Partitioner

    @property
    def effective_count(self) -> int:
        """The partition count by which this partition assigns keys; for a pending child, its future count."""
        return self.lineage.effective_count(self.partition)

    @property
    def phase(self) -> Phase:
        """The phase of the owner in a repartitioning: `"wait"`, `"adopt"`, `"settle"` or `"decide"`."""
        return self.lineage.phase(self.partition, self.topic_partitions)

    @property
    def key_filter(self) -> KeyFilter | None:
        """The filter for the partition's own keys; None without a repartitioning: then its logs have only own keys."""
        return (
            KeyFilter(self.partitioner, self.effective_count, self.partition)
            if self.lineage.was_repartitioned
            else None
        )

    @property
    def was_repartitioned(self) -> bool:
        """True if keys have moved, or will move."""
        return self.lineage.was_repartitioned

    @property
    def child_partitions(self) -> list[int]:
        """The partitions to which this partition has handed over keys."""
        return self.lineage.child_partitions(self.partition)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The parts of the logs with all records of the partition's keys, in order. The last part is its own log."""
        return self.lineage.segments(self.partition)

    @property
    def inherited_splits(self) -> tuple[Split, ...]:
        """The splits that end the inherited segments, the oldest first; empty before the parent's split."""
        return self.lineage.inherited_splits(self.partition)

    @property
    def is_activated(self) -> bool:
        """True for an original partition, and for a child partition that decides."""
        return self.lineage.is_activated(self.partition)

    @property
    def has_imported_deferred(self) -> bool:
        """True for a child partition that has imported its deferred commands."""
        return self.partition in self.lineage.activated

    def pending_partitions(self) -> list[int]:
        """Return the partitions of the aggregate that wait for a split."""
        unfinished = self.lineage.unfinished_partitions(self.topic_partitions)
        return [
            number for number in unfinished if self.lineage.phase(number, self.topic_partitions) == "wait"
        ]

    def with_record(self, record: LineageRecord) -> "AssignedKeys":
        """Return the assigned keys after one more record of the partition history."""
        return self._replace(lineage=self.lineage.with_record(record))

    def activation(self) -> Begun:
        """Return the record with which the partition, as a child, ends the import of its deferred commands."""
        return Begun(self.partition)

    def next_split(self, position: int, events: int, outcomes: int, deferred: int, clock: int) -> Split:
        """Return the next split of a partition in phase `settle`. The parameters are the fields of `Split`: the offsets
        at which the partition's logs end, and the greatest timestamp of its decided commands in ms.
        """
        next_count = self.lineage.next_count(self.partition, self.topic_partitions)
        assert next_count is not None
        return Split(
            self.partition, self.effective_count, next_count, position, events, outcomes, deferred, clock
        )

    def partition_function(self) -> Callable[[bytes], int] | None:
        """Return the function from a key to the partition to which it hashes; None if the partitioner is unknown."""
        return partition_function(self.partitioner, self.effective_count)

    def forward_target_function(self) -> Callable[[bytes], int | None] | None:
        """Return a function that returns, for a key, the child to which the key has moved, or None if this partition
        owns the key. Without a repartitioning, return None instead of a function.
        """
        if not self.lineage.was_repartitioned:
            return None
        lineage, partition, partitioner = self.lineage, self.partition, self.partitioner
        return lambda key: lineage.forward_target(
            partition, lambda count: producer_partition(partitioner, key, count)
        )
