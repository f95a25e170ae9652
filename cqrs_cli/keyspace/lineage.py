"""The partition history of an aggregate, a pure fold of its lineage log: the keys and the parents of each partition.

    Grow 4 → 8       an operator requests a repartitioning from 4 to 8 partitions
    Split 1: 4 → 8   partition 1 has handed over its keys that hash to partition 5 if there are 8 partitions
    Begun 5          partition 5 has imported its deferred commands, and decides

Each partition has an effective count, which determines its keys: a key belongs to partition p if it hashes to p among
this number of partitions. The count comes from the partition history, never from the cluster's metadata, because
brokers learn of new partitions one after the other. Each count is a multiple of the previous count. So a repartitioning
moves a key at most once, from its partition to a child of its partition, which has a higher number.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cqrs_cli.keyspace.records import Begun, Grow, LineageRecord, Split

#: For one key: returns the key's partition among `count` partitions.
PartitionAmong = Callable[[int], int]

#: The phase of a partition (docs/owner.md). The owner waits for the parent's split, imports the inherited deferred
#: commands, drains the commands that were sent before the repartitioning, or decides.
Phase = Literal["wait", "adopt", "settle", "decide"]

#: The progress of a partition in a repartitioning, for people. `grows`: the topics are being extended; `waits`,
#: `adopts`, `settles`: the partition is in this phase; `split`, `begun`: the parent, or the child, has finished.
Stage = Literal["grows", "waits", "adopts", "settles", "split", "begun"]

_STAGES: dict[Phase, Stage] = {"wait": "waits", "adopt": "adopts", "settle": "settles"}


class Segment(NamedTuple):
    """A part of one partition's logs: up to the offsets of a split, or to their ends if `split` is None."""

    partition: int
    split: Split | None = None


class LineageError(ValueError):
    """A record that cannot follow the earlier records of the partition history."""


@dataclass(frozen=True, slots=True)
class PartitionLineage:
    """A partition history: all requested counts, all splits, and the child partitions that decide.

    `counts`: all partition counts, ascending: `(4, 8)` after one repartitioning. `activated`: the child partitions with
    a `Begun`. A method's parameter `partition` is the number of a partition, and `topic_partitions` the number of
    partitions that all topics of the aggregate have at present.
    """

    counts: tuple[int, ...]
    splits: tuple[Split, ...] = ()
    activated: frozenset[int] = frozenset()

    @property
    def was_repartitioned(self) -> bool:
        """True if a repartitioning was requested. Without a request, callers skip all work for repartitioning."""
        return len(self.counts) > 1

    def is_valid_next_count(self, count: int) -> bool:
        """True if this count is a valid next count: greater than the last count, and a multiple of it."""
        return count > self.counts[-1] and count % self.counts[-1] == 0

    def with_record(self, record: LineageRecord) -> "PartitionLineage":
        """Return the history after one more record. A request with an outdated `before` is ignored, because another
        request came first.

        Raises `LineageError` for a `Split` or `Begun` that no owner would write.
        """
        match record:
            case Grow():
                if record.before != self.counts[-1] or not self.is_valid_next_count(record.after):
                    return self
                return PartitionLineage((*self.counts, record.after), self.splits, self.activated)
            case Split():
                if (record.before, record.after) != self._next_step(record.partition):
                    raise LineageError(
                        f"partition {record.partition} cannot split from {record.before} to {record.after}"
                    )
                return PartitionLineage(self.counts, (*self.splits, record), self.activated)
            case Begun():
                if self.split_creating(record.partition) is None or record.partition in self.activated:
                    raise LineageError(f"partition {record.partition} cannot begin")
                return PartitionLineage(self.counts, self.splits, self.activated | {record.partition})

    def _next_step(self, partition: int) -> tuple[int, int] | None:
        """Return (present count, next count) of a partition; None if its parent has not split, or no count follows."""
        before = self.active_count(partition)
        after = next((count for count in self.counts if before is not None and count > before), None)
        return None if before is None or after is None else (before, after)

    def splits_of(self, partition: int) -> tuple[Split, ...]:
        """Return the splits at which a partition handed over keys, in order."""
        return tuple(split for split in self.splits if split.partition == partition)

    def effective_count(self, partition: int) -> int:
        """Return the count by which a partition assigns keys; for a pending child, its future count."""
        splits = [
            split
            for split in self.splits
            if split.partition == partition or partition in split.child_partitions
        ]
        return splits[-1].after if splits else self.initial_count(partition)

    def active_count(self, partition: int) -> int | None:
        """Return the count by which a partition assigns keys; None until its parent has split."""
        has_keys = partition < self.counts[0] or self.split_creating(partition) is not None
        return self.effective_count(partition) if has_keys else None

    def initial_count(self, partition: int) -> int:
        """Return the count with which a partition begins; the last count for a partition number beyond all counts."""
        return next((count for count in self.counts if count > partition), self.counts[-1])

    def parent(self, partition: int) -> int | None:
        """Return the partition that hands over the first keys to `partition`; None for an original partition."""
        for before, after in zip(self.counts, self.counts[1:], strict=False):
            if before <= partition < after:
                return partition % before
        return None

    def child_partitions(self, partition: int) -> list[int]:
        """Return the partitions to which this partition has handed over keys."""
        return [child for split in self.splits_of(partition) for child in split.child_partitions]

    def split_creating(self, partition: int) -> Split | None:
        """Return the split that created a partition; None for an original partition, and before the split."""
        return next((split for split in self.splits if partition in split.child_partitions), None)

    def is_activated(self, partition: int) -> bool:
        """True for an original partition, and for a child that decides."""
        return partition < self.counts[0] or partition in self.activated

    def inherited_splits(self, partition: int) -> tuple[Split, ...]:
        """Return the splits that end the inherited segments of a partition, the oldest first; empty before its parent's
        split.
        """
        if self.split_creating(partition) is None:
            return ()
        return tuple(segment.split for segment in self.segments(partition) if segment.split is not None)

    def next_count(self, partition: int, topic_partitions: int) -> int | None:
        """Return the count to which a partition splits next; None if no split is due, or a topic is not extended yet.

        After two repartitionings, a partition splits twice. With a single split, a later command could overtake a
        command that was sent between the two repartitionings.
        """
        step = self._next_step(partition)
        return None if step is None or step[1] > topic_partitions else step[1]

    def phase(self, partition: int, topic_partitions: int) -> Phase:
        """Return the phase of a partition."""
        if self.active_count(partition) is None:
            return "wait"
        if not self.is_activated(partition):
            return "adopt"
        return "decide" if self.next_count(partition, topic_partitions) is None else "settle"

    def stages(self, topic_partitions: int) -> dict[int, Stage]:
        """Return partition → its stage in the repartitioning; an empty dict if no repartitioning is in progress."""
        last_count = self.counts[-1]
        if last_count <= topic_partitions and not self.unfinished_partitions(topic_partitions):
            return {}
        return {
            partition: self._stage(partition, topic_partitions, is_extended=last_count <= topic_partitions)
            for partition in range(last_count)
        }

    def _stage(self, partition: int, topic_partitions: int, is_extended: bool) -> Stage:
        """Return the stage of a partition; `is_extended`: all topics have the last count of partitions."""
        phase = self.phase(partition, topic_partitions)
        if phase != "decide":
            return _STAGES[phase]
        if not is_extended:
            return "grows"
        return "split" if self.splits_of(partition) else "begun"

    def unfinished_partitions(self, topic_partitions: int) -> list[int]:
        """Return the parents that still have to split, and the children that do not decide yet."""
        return [
            partition
            for partition in range(self.counts[-1])
            if self.phase(partition, topic_partitions) != "decide"
        ]

    def segments(self, partition: int) -> tuple[Segment, ...]:
        """Return the parts of the logs that hold all records of a partition's keys, in order.

        The records are in the logs of the partition's ancestors up to their splits, and then in its own log. A reader
        that does not know a split may read the parent's whole log: after the split, the parent's owner writes no record
        of a key that was handed over, and before the split, the child has no record.
        """
        parent = self.parent(partition)
        if parent is None:
            return (Segment(partition),)
        return (
            *self.segments(parent)[:-1],
            Segment(parent, self.split_creating(partition)),
            Segment(partition),
        )

    def up_to_count(self, count: int) -> "PartitionLineage":
        """Return the history without the counts above `count`, the number of partitions that the topics have: no
        partition has split to a higher count.
        """
        remaining_counts = tuple(known_count for known_count in self.counts if known_count <= count)
        return PartitionLineage(remaining_counts, self.splits, self.activated)

    def deferred_partition(self, key_partition: int) -> int:
        """Return the partition of the deferred topic that holds the deferred commands of a key.

        `key_partition` is the key's partition by the last count. A child holds its deferred commands from its `Begun`
        on. After that, the entries in the parent's partition do not count.
        """
        return [
            segment.partition
            for segment in self.segments(key_partition)
            if self.is_activated(segment.partition)
        ][-1]

    def is_ready(self, partition: int, positions: Mapping[int, int]) -> bool:
        """True if a reader may begin to read events of this partition: it has read all parents up to their splits.

        `positions` maps each partition to the offset of the next event to read. This rule keeps a key's events in
        order.
        """
        parent, split = self.parent(partition), self.split_creating(partition)
        if parent is None:
            return True
        if split is None:
            return False  # the parent has not split, so the partition has no event
        position = positions.get(parent, 0)
        return position >= split.events and (position > 0 or self.is_ready(parent, positions))

    def forward_target(self, partition: int, partition_among: PartitionAmong) -> int | None:
        """Return the child to which `partition` handed over a key; None if it still owns the key, or never owned it.

        If the key has moved on from that child, the child forwards the command again. A command that skipped the child
        could overtake an earlier command that is still being forwarded.
        """
        effective_count = self.active_count(partition) or 0
        assignments = [partition_among(count) for count in self.counts if count <= effective_count]
        if partition not in assignments:
            return None
        later_assignments = assignments[assignments.index(partition) :]
        return next((assigned for assigned in later_assignments if assigned != partition), None)


def fold_lineage(records: Iterable[LineageRecord], count: int) -> PartitionLineage:
    """Fold the records of a lineage log; `count` is the number of partitions if the log contains no request."""
    lineage: PartitionLineage | None = None
    for record in records:
        if lineage is None:
            lineage = PartitionLineage((record.before,) if isinstance(record, Grow) else (count,))
        lineage = lineage.with_record(record)
    return lineage or PartitionLineage((count,))
