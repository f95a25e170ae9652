"""The keys of a partition over a growth, by the count that was in force at each of its offsets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.growth import Split

#: The logs that a split parts, besides the commands.
Parted = Literal["events", "outcomes"]


@dataclass(frozen=True, slots=True)
class Homes:
    """One partition of a lineage. `among`: the home of a key among so many partitions."""

    lineage: PartitionLineage
    partition: int
    among: Callable[[bytes, int], int]

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits at which it gave keys away, in their order."""
        return self.lineage.splits_of(self.partition)

    @property
    def has_begun(self) -> bool:
        """False for a child that may decide nothing yet."""
        return self.lineage.has_begun(self.partition)

    @property
    def judging(self) -> int:
        """The count by which its owner judges now."""
        return self.lineage.judging(self.partition)

    def home(self, key: bytes, command: int) -> int:
        """The home of a key when a command was decided."""
        return self.among(key, self._count_at(command))

    def home_of_event(self, key: bytes, at: int) -> int:
        """The home of a key when the event at an offset was written."""
        return self.among(key, self._count(lambda split: split.events <= at))

    def heir(self, key: bytes, command: int) -> int | None:
        """The child that had a key when a command was decided, if the partition itself gave it away."""
        then = self._count_at(command)
        splits = tuple(
            one for one in self.lineage.splits if one.partition != self.partition or one.after <= then
        )
        lineage = PartitionLineage(self.lineage.counts, splits, self.lineage.begun)
        return lineage.heir(self.partition, lambda count: self.among(key, count))

    def crossed(self, log: Parted, command: int, at: int) -> Split | None:
        """The split that has a command on one side, and its record at offset `at` of a log on the other."""
        for split in self.splits:
            end = split.events if log == "events" else split.outcomes
            if (command < split.commands) != (at < end):
                return split
        return None

    def gave_away(self, key: bytes, at: int) -> Split | None:
        """The split that gave a key away before the deferred topic came to offset `at`."""
        for split in self.splits:
            had = self.among(key, split.before) == self.partition
            if at >= split.deferred and had and self.among(key, split.after) != self.partition:
                return split
        return None

    def precedes(self, command: int, at: int) -> Split | None:
        """The split behind which a command was decided that the deferred topic has below it, at offset `at`."""
        return next((one for one in self.splits if one.deferred > at and one.commands <= command), None)

    def _count_at(self, command: int) -> int:
        return self._count(lambda split: split.commands <= command)

    def _count(self, is_over: Callable[[Split], bool]) -> int:
        counts = [split.after for split in self.splits if is_over(split)]
        return counts[-1] if counts else self.lineage.first_count(self.partition)
