"""The growth of an aggregate's partitions, a pure fold of its lineage log: whose keys a partition has, and whose logs.

    grow 4 → 8       an operator's wish: the topics get 8 partitions
    split 1: 4 → 8   partition 1 has given the keys away whose home among 8 is partition 5
    begun 5          partition 5 has taken over what waits, and decides

A partition judges by one count: a key is at home where it hashes to with that count. It comes from the lineage, never
from the cluster's metadata, which brokers learn one after the other. Counts only grow, each a multiple of the one
before, so a key moves at most once in a growth, from its home to a child of it, whose number is higher.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from cqrs_cli.core.messages.growth import Begun, Grow, Growth, Split

#: A key's home among so many partitions.
Home = Callable[[int], int]

#: The owner's next step in a partition: it waits for its parent's split, takes over what waits, decides what was sent
#: before the growth, or decides.
Phase = Literal["wait", "adopt", "settle", "decide"]

#: A partition's word in a growth that is under way: the topics grow, it is at a phase, or its part is done.
Stage = Literal["grows", "waits", "adopts", "settles", "split", "begun"]

_STAGES: dict[Phase, Stage] = {"wait": "waits", "adopt": "adopts", "settle": "settles"}


class LineageError(ValueError):
    """A record of the lineage that cannot follow those before it."""


@dataclass(frozen=True, slots=True)
class PartitionLineage:
    """`counts`: the numbers of partitions, ascending, as operators wished them. One that never grew has one count."""

    counts: tuple[int, ...]
    splits: tuple[Split, ...] = ()
    begun: frozenset[int] = frozenset()

    @property
    def has_grown(self) -> bool:
        """True if there is more than one count: an aggregate that never grew costs nothing."""
        return len(self.counts) > 1

    def follows(self, count: int) -> bool:
        """True if the partitions may grow to this count."""
        return count > self.counts[-1] and count % self.counts[-1] == 0

    def with_record(self, growth: Growth) -> "PartitionLineage":
        """The lineage after one more record. A wish that does not follow does not count: another one came first.

        Raises `LineageError` for what only an owner writes, and no owner would have.
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
        """The splits at which a partition gave keys away, in their order."""
        return tuple(split for split in self.splits if split.partition == partition)

    def judging(self, partition: int) -> int:
        """The count by which a partition judges. A child that is not born will begin with this one."""
        splits = [one for one in self.splits if one.partition == partition or partition in one.children]
        return splits[-1].after if splits else self.first_count(partition)

    def count(self, partition: int) -> int | None:
        """The count by which a partition judges; None while its parent has not split."""
        is_there = partition < self.counts[0] or self.birth(partition) is not None
        return self.judging(partition) if is_there else None

    def first_count(self, partition: int) -> int:
        """The count by which a partition judges when it begins; the last one for a number that no count has."""
        return next((count for count in self.counts if count > partition), self.counts[-1])

    def parent(self, partition: int) -> int | None:
        """The partition that gives it its first keys; None for one of the first."""
        for before, after in zip(self.counts, self.counts[1:], strict=False):
            if before <= partition < after:
                return partition % before
        return None

    def children(self, partition: int) -> list[int]:
        """The partitions to which it has given keys."""
        return [child for split in self.splits_of(partition) for child in split.children]

    def parents(self, partition: int) -> tuple[int, ...]:
        """The partitions whose logs have events of its first keys, the oldest first."""
        above = self.parent(partition)
        return () if above is None else (*self.parents(above), above)

    def birth(self, partition: int) -> Split | None:
        """The split that gave a partition its first keys; None for one of the first, and before it took place."""
        return next((split for split in self.splits if partition in split.children), None)

    def has_begun(self, partition: int) -> bool:
        """True for one of the first partitions, and for a child that decides."""
        return partition < self.counts[0] or partition in self.begun

    def ancestry(self, partition: int) -> tuple[Split, ...]:
        """The splits through which a partition has what it inherited, the oldest first.

        Each names a partition and how far its logs are inherited, of the keys whose home is `partition`.
        """
        born = self.birth(partition)
        return () if born is None else (*self.ancestry(born.partition), born)

    def next_count(self, partition: int, there: int) -> int | None:
        """The count to which a partition is to split next: one growth at a time, and only where all topics are `there`.

        Two at once would let a command that was sent between both growths be overtaken by one that was sent later.
        """
        step = self._next_step(partition)
        return None if step is None or step[1] > there else step[1]

    def phase(self, partition: int, there: int) -> Phase:
        """The next task of its owner, where all topics have `there` partitions."""
        if self.count(partition) is None:
            return "wait"
        if not self.has_begun(partition):
            return "adopt"
        return "decide" if self.next_count(partition, there) is None else "settle"

    def stages(self, there: int) -> dict[int, Stage]:
        """Every partition of a growth that is under way; nothing where all have come to the last count."""
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
        """The partitions that are to split, or to begin, where all topics have `there` partitions."""
        return [one for one in range(self.counts[-1]) if self.phase(one, there) != "decide"]

    def chain(self, home: int) -> tuple[int, ...]:
        """The partitions whose events, read one after the other, are those of the keys with this home, in their order.

        `home` is by the last count. No split is asked for: an owner writes no event of a key it has given away, so
        a partition that has not split yet is the last link with events.
        """
        return tuple(sorted({home % count for count in self.counts}))

    def within(self, count: int) -> "PartitionLineage":
        """The lineage as far as topics of so many partitions are: for a wish that they do not have nobody has split."""
        return PartitionLineage(tuple(one for one in self.counts if one <= count), self.splits, self.begun)

    def keeper(self, home: int) -> int:
        """The partition in whose topic the deferred commands of keys with this home are.

        `home` is by the last count. A child has them from the moment it has begun; what stands of them in its parent's
        topic then counts no more.
        """
        return [one for one in self.chain(home) if self.has_begun(one)][-1]

    def may_begin(self, partition: int, positions: Mapping[int, int]) -> bool:
        """True if a reader that has read the events of each partition up to these positions may begin with this one.

        All events that its keys have in its parents come first.
        """
        parent, born = self.parent(partition), self.birth(partition)
        if parent is None:
            return True
        if born is None:
            return False  # it has no event
        read = positions.get(parent, 0)
        return read >= born.events and (read > 0 or self.may_begin(parent, positions))

    def heir(self, partition: int, home: Home) -> int | None:
        """The child to which a partition itself gave a key; None if the key was never its own.

        Hop by hop: its last home may be further, but a command that goes there directly would overtake one on its way
        through the partitions between.
        """
        judging = self.count(partition) or 0
        homes = [home(count) for count in self.counts if count <= judging]
        if partition not in homes:
            return None
        return next((one for one in homes[homes.index(partition) :] if one != partition), None)


def adopting_count(before: int, there: int) -> int:
    """The least count to which `before` partitions can grow where topics were grown by hand to `there`."""
    return before * -(-there // before)


def fold_lineage(records: Iterable[Growth], count: int) -> PartitionLineage:
    """The lineage that a log tells of; `count`: the partitions of an aggregate without a wish."""
    lineage: PartitionLineage | None = None
    for growth in records:
        if lineage is None:
            lineage = PartitionLineage((growth.before,) if isinstance(growth, Grow) else (count,))
        lineage = lineage.with_record(growth)
    return lineage or PartitionLineage((count,))
