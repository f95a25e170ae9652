"""The partition history of an aggregate, a pure fold of its lineage log: the keys and the parents of each partition.

    grow 4 → 8       an operator requests a repartitioning from 4 to 8 partitions
    split 1: 4 → 8   partition 1 has handed over its keys that hash to partition 5 if there are 8 partitions
    begun 5          partition 5 has imported its deferred commands, and decides

A partition assigns keys by one count: a key belongs to the partition that it hashes to with this count. The count comes
from the partition history, never from the cluster's metadata, because brokers learn of new partitions one after the
other. Each count is a multiple of the previous count. So a repartitioning moves a key at most once, from its partition
to a child of that partition, which has a higher number.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from cqrs_cli.core.messages.repartitioning import Begun, Grow, Growth, Split

#: The hash of one key: count → the key's partition among `count` partitions.
Home = Callable[[int], int]

#: The phase of a partition (docs/owner.md). The owner waits for the parent's split, imports the inherited deferred
#: commands, drains the commands that were sent before the repartitioning, or decides.
Phase = Literal["wait", "adopt", "settle", "decide"]

#: The progress of a partition in a repartitioning: its topics are being extended, it is in a phase, or it is done.
Stage = Literal["grows", "waits", "adopts", "settles", "split", "begun"]

_STAGES: dict[Phase, Stage] = {"wait": "waits", "adopt": "adopts", "settle": "settles"}


class LineageError(ValueError):
    """A record that cannot follow the earlier records of the partition history."""


@dataclass(frozen=True, slots=True)
class PartitionLineage:
    """A partition history. `counts` are all partition counts, ascending: `(4, 8)` after one repartitioning."""

    counts: tuple[int, ...]
    splits: tuple[Split, ...] = ()
    begun: frozenset[int] = frozenset()

    @property
    def has_grown(self) -> bool:
        """True if a repartitioning was requested. Without a request, callers skip all work for repartitioning."""
        return len(self.counts) > 1

    def follows(self, count: int) -> bool:
        """True if this count is a valid next count: greater than the last count, and a multiple of it."""
        return count > self.counts[-1] and count % self.counts[-1] == 0

    def with_record(self, growth: Growth) -> "PartitionLineage":
        """Return the history after one more record. A request with an outdated `before` is ignored: another came first.

        Raises `LineageError` for an impossible `Split` or `Begun`: only owners write these, and no owner would.
        """
        match growth:
            case Grow():
                if growth.before != self.counts[-1] or not self.follows(growth.after):
                    return self
                return PartitionLineage((*self.counts, growth.after), self.splits, self.begun)
            case Split():
                if (growth.before, growth.after) != self._next_step(growth.partition):
                    raise LineageError(
                        f"partition {growth.partition} cannot split from {growth.before} to {growth.after}"
                    )
                return PartitionLineage(self.counts, (*self.splits, growth), self.begun)
            case Begun():
                if self.birth(growth.partition) is None or growth.partition in self.begun:
                    raise LineageError(f"partition {growth.partition} cannot begin")
                return PartitionLineage(self.counts, self.splits, self.begun | {growth.partition})

    def _next_step(self, partition: int) -> tuple[int, int] | None:
        before = self.count(partition)
        after = next((one for one in self.counts if before is not None and one > before), None)
        return None if before is None or after is None else (before, after)

    def splits_of(self, partition: int) -> tuple[Split, ...]:
        """Return the splits at which a partition handed over keys, in order."""
        return tuple(split for split in self.splits if split.partition == partition)

    def judging(self, partition: int) -> int:
        """Return the count by which a partition assigns keys; for a pending child, its future count."""
        splits = [one for one in self.splits if one.partition == partition or partition in one.children]
        return splits[-1].after if splits else self.first_count(partition)

    def count(self, partition: int) -> int | None:
        """Return the count by which a partition assigns keys; None until its parent has split."""
        is_there = partition < self.counts[0] or self.birth(partition) is not None
        return self.judging(partition) if is_there else None

    def first_count(self, partition: int) -> int:
        """Return the count with which a partition begins; the last count for a partition number beyond all counts."""
        return next((count for count in self.counts if count > partition), self.counts[-1])

    def parent(self, partition: int) -> int | None:
        """Return the partition that hands over the first keys to this one; None for an original partition."""
        for before, after in zip(self.counts, self.counts[1:], strict=False):
            if before <= partition < after:
                return partition % before
        return None

    def children(self, partition: int) -> list[int]:
        """Return the partitions to which this partition has handed over keys."""
        return [child for split in self.splits_of(partition) for child in split.children]

    def parents(self, partition: int) -> tuple[int, ...]:
        """Return the partitions whose logs hold earlier events of this partition's keys, the oldest first."""
        above = self.parent(partition)
        return () if above is None else (*self.parents(above), above)

    def birth(self, partition: int) -> Split | None:
        """Return the split that created a partition; None for an original partition, and before the split."""
        return next((split for split in self.splits if partition in split.children), None)

    def has_begun(self, partition: int) -> bool:
        """True for an original partition, and for a child that decides."""
        return partition < self.counts[0] or partition in self.begun

    def ancestry(self, partition: int) -> tuple[Split, ...]:
        """Return the splits that a partition inherits from, the oldest first.

        Each split names a parent, and the ends of the inherited part of the parent's logs.
        """
        born = self.birth(partition)
        return () if born is None else (*self.ancestry(born.partition), born)

    def next_count(self, partition: int, there: int) -> int | None:
        """Return the count to which a partition splits next; None if no split is due, or a topic is not extended yet.

        `there` is the number of partitions that all topics have. A partition never splits over two repartitionings at
        once: a command that was sent between them could be overtaken by a later command.
        """
        step = self._next_step(partition)
        return None if step is None or step[1] > there else step[1]

    def phase(self, partition: int, there: int) -> Phase:
        """Return the phase of a partition; `there` is the number of partitions that all topics have."""
        if self.count(partition) is None:
            return "wait"
        if not self.has_begun(partition):
            return "adopt"
        return "decide" if self.next_count(partition, there) is None else "settle"

    def stages(self, there: int) -> dict[int, Stage]:
        """Return the stage of every partition during a repartitioning, by number; an empty dict after it."""
        last = self.counts[-1]
        if last <= there and not self.unfinished(there):
            return {}
        done: Stage = "grows" if last > there else "split"
        return {
            one: _STAGES.get(
                self.phase(one, there), done if done == "grows" or self.splits_of(one) else "begun"
            )
            for one in range(last)
        }

    def unfinished(self, there: int) -> list[int]:
        """Return the partitions that have not yet split or begun; `there` is as for `phase`."""
        return [one for one in range(self.counts[-1]) if self.phase(one, there) != "decide"]

    def chain(self, home: int) -> tuple[int, ...]:
        """Return the segments of the keys of partition `home` among the last count: the partitions that hold all their
        events, in order.

        The splits do not matter. If a partition has not split yet, its children hold no event; after the split it
        writes no event of a key that it handed over.
        """
        return tuple(sorted({home % count for count in self.counts}))

    def within(self, count: int) -> "PartitionLineage":
        """Return the history without the counts above `count`. If the topics have `count` partitions, no partition has
        split to a higher count.
        """
        return PartitionLineage(tuple(one for one in self.counts if one <= count), self.splits, self.begun)

    def keeper(self, home: int) -> int:
        """Return the partition whose topic holds the deferred commands of the keys of `home` among the last count.

        A child holds them from its `Begun` on. From then on, the entries in its parent's topic do not count.
        """
        return [one for one in self.chain(home) if self.has_begun(one)][-1]

    def may_begin(self, partition: int, positions: Mapping[int, int]) -> bool:
        """True if a reader may begin to read events of this partition: it has read all parents up to their splits.

        `positions` maps each partition to the offset of the next event to read. So a key's events are read in order.
        """
        parent, born = self.parent(partition), self.birth(partition)
        if parent is None:
            return True
        if born is None:
            return False  # the parent has not split, so the partition has no event
        read = positions.get(parent, 0)
        return read >= born.events and (read > 0 or self.may_begin(parent, positions))

    def heir(self, partition: int, home: Home) -> int | None:
        """Return the child to which this partition handed over a key; None if it still owns the key, or never did.

        Commands are forwarded hop by hop, although the key may have moved on: a command that skips a hop could overtake
        an earlier command which is still being forwarded.
        """
        judging = self.count(partition) or 0
        homes = [home(count) for count in self.counts if count <= judging]
        if partition not in homes:
            return None
        return next((one for one in homes[homes.index(partition) :] if one != partition), None)


def adopting_count(before: int, there: int) -> int:
    """Return the lowest valid next count after `before` for topics that were extended by hand to `there` partitions."""
    return before * -(-there // before)


def fold_lineage(records: Iterable[Growth], count: int) -> PartitionLineage:
    """Fold the records of a lineage log; `count` is the number of partitions if the log contains no request."""
    lineage: PartitionLineage | None = None
    for growth in records:
        if lineage is None:
            lineage = PartitionLineage((growth.before,) if isinstance(growth, Grow) else (count,))
        lineage = lineage.with_record(growth)
    return lineage or PartitionLineage((count,))
