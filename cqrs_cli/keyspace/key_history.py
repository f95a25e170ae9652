"""The keys of a partition during repartitionings: the partition count that applied at each offset."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Split

#: The upper bound of offsets.
LIMIT = 2**63

#: The logs in which a split has an offset, besides the commands.
SplitLog = Literal["events", "outcomes"]


class KeyStage(NamedTuple):
    """The commands of a partition that were decided with one partition count: start ≤ offset < end.

    `children`: the partitions that got keys at `end`. `partition_of(key)` returns the partition of a key in this stage;
    `forward_target_of(key)` returns the child to which the key had moved, or None. Without a repartitioning, both
    functions are None.
    """

    start: int = 0
    end: int = LIMIT
    children: range = range(0)
    partition_of: Callable[[bytes], int] | None = None
    forward_target_of: Callable[[bytes], int | None] | None = None


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """The keys of one partition over time, by the partition history. `partition_among(key, count)` returns the key's
    partition among `count` partitions.
    """

    lineage: PartitionLineage
    partition: int
    partition_among: Callable[[bytes, int], int]

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits at which the partition handed over keys, in order."""
        return self.lineage.splits_of(self.partition)

    @property
    def is_activated(self) -> bool:
        """False for a pending child partition, which decides no commands yet."""
        return self.lineage.is_activated(self.partition)

    @property
    def effective_count(self) -> int:
        """The partition count by which its owner assigns keys now."""
        return self.lineage.effective_count(self.partition)

    def stages(self) -> Iterator[KeyStage]:
        """Yield the stages of the partition's commands, in order."""
        start = 0
        for split in self.splits:
            yield self._stage(start, split.commands, split.child_partitions)
            start = split.commands
        yield self._stage(start, LIMIT, range(0))

    def _stage(self, start: int, end: int, children: range) -> KeyStage:
        return KeyStage(
            start,
            end,
            children,
            partial(self.partition_at_command, command_offset=start),
            partial(self.forward_target, command_offset=start),
        )

    def partition_at_command(self, key: bytes, command_offset: int) -> int:
        """Return the partition of a key when a command was decided."""
        return self.partition_among(key, self._count_at(command_offset))

    def partition_at_event(self, key: bytes, offset: int) -> int:
        """Return the partition of a key when the event at an offset was written."""
        return self.partition_among(key, self._count_after_splits(lambda split: split.events <= offset))

    def forward_target(self, key: bytes, command_offset: int) -> int | None:
        """Return the child partition that had a key when a command was decided; None if this partition had not handed
        over the key.
        """
        count_then = self._count_at(command_offset)
        splits = tuple(
            split
            for split in self.lineage.splits
            if split.partition != self.partition or split.after <= count_then
        )
        lineage = PartitionLineage(self.lineage.counts, splits, self.lineage.activated)
        return lineage.forward_target(self.partition, lambda count: self.partition_among(key, count))

    def split_between(self, log: SplitLog, command_offset: int, offset: int) -> Split | None:
        """Return a split between a command and the record that it caused at `offset` of a log: the split is after the
        command and before the record, or the reverse. None if there is no such split.
        """
        for split in self.splits:
            end = split.events if log == "events" else split.outcomes
            if (command_offset < split.commands) != (offset < end):
                return split
        return None

    def split_that_moved(self, key: bytes, offset: int) -> Split | None:
        """Return the split that handed over a key before offset `offset` of the deferred topic, or None."""
        for split in self.splits:
            owned_key = self.partition_among(key, split.before) == self.partition
            if (
                offset >= split.deferred
                and owned_key
                and self.partition_among(key, split.after) != self.partition
            ):
                return split
        return None

    def split_before_command(self, command_offset: int, offset: int) -> Split | None:
        """Return a split that is before a command, but after the command's record at `offset` of the deferred topic;
        None if there is no such split.
        """
        return next(
            (split for split in self.splits if split.deferred > offset and split.commands <= command_offset),
            None,
        )

    def _count_at(self, command_offset: int) -> int:
        return self._count_after_splits(lambda split: split.commands <= command_offset)

    def _count_after_splits(self, is_past: Callable[[Split], bool]) -> int:
        counts = [split.after for split in self.splits if is_past(split)]
        return counts[-1] if counts else self.lineage.initial_count(self.partition)
