"""The keys of a partition during repartitionings: the partition count that applied at each offset."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.repartitioning import Split

#: The logs in which a split has an offset, besides the commands.
Parted = Literal["events", "outcomes"]


@dataclass(frozen=True, slots=True)
class Homes:
    """A partition in its partition history. `among(key, count)` is the key's partition among `count` partitions."""

    lineage: PartitionLineage
    partition: int
    among: Callable[[bytes, int], int]

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits at which the partition handed over keys, in order."""
        return self.lineage.splits_of(self.partition)

    @property
    def has_begun(self) -> bool:
        """False for a pending child partition, which decides no commands yet."""
        return self.lineage.is_activated(self.partition)

    @property
    def judging(self) -> int:
        """The partition count by which its owner assigns keys now."""
        return self.lineage.effective_count(self.partition)

    def home(self, key: bytes, command: int) -> int:
        """Return the partition of a key when a command was decided."""
        return self.among(key, self._count_at(command))

    def home_of_event(self, key: bytes, at: int) -> int:
        """Return the partition of a key when the event at an offset was written."""
        return self.among(key, self._count(lambda split: split.events <= at))

    def heir(self, key: bytes, command: int) -> int | None:
        """Return the child partition that had a key when a command was decided; None if this partition had not handed
        over the key.
        """
        then = self._count_at(command)
        splits = tuple(
            one for one in self.lineage.splits if one.partition != self.partition or one.after <= then
        )
        lineage = PartitionLineage(self.lineage.counts, splits, self.lineage.activated)
        return lineage.forward_target(self.partition, lambda count: self.among(key, count))

    def crossed(self, log: Parted, command: int, at: int) -> Split | None:
        """Return a split between a command and its record at offset `at` of a log: the split is after one of the two,
        and before the other. None if there is no such split.
        """
        for split in self.splits:
            end = split.events if log == "events" else split.outcomes
            if (command < split.commands) != (at < end):
                return split
        return None

    def gave_away(self, key: bytes, at: int) -> Split | None:
        """Return the split that handed over a key before offset `at` of the deferred topic, or None."""
        for split in self.splits:
            had = self.among(key, split.before) == self.partition
            if at >= split.deferred and had and self.among(key, split.after) != self.partition:
                return split
        return None

    def precedes(self, command: int, at: int) -> Split | None:
        """Return a split that is before a command, but after its record at offset `at` of the deferred topic."""
        return next((one for one in self.splits if one.deferred > at and one.commands <= command), None)

    def _count_at(self, command: int) -> int:
        return self._count(lambda split: split.commands <= command)

    def _count(self, is_over: Callable[[Split], bool]) -> int:
        counts = [split.after for split in self.splits if is_over(split)]
        return counts[-1] if counts else self.lineage.initial_count(self.partition)
