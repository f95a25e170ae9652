"""The keys of one partition: its place in the lineage of its aggregate, as its owner knows it."""

from collections.abc import Callable
from typing import NamedTuple

from cqrs_cli.core.lineage import PartitionLineage, Phase
from cqrs_cli.kafka.topics.partitioner import KeyHome, Partitioner, partition_function, target


class Holding(NamedTuple):
    """`there`: the partitions that all topics have, as the plan says."""

    lineage: PartitionLineage
    number: int
    there: int
    partitioner: Partitioner

    @property
    def judging(self) -> int:
        """The count by which the partition judges. A child that is not born will begin with this one."""
        return self.lineage.judging(self.number)

    @property
    def phase(self) -> Phase:
        """The next task of the owner."""
        return self.lineage.phase(self.number, self.there)

    @property
    def keeps(self) -> KeyHome | None:
        """The keys that are its own; None for all keys of its logs: nothing has moved."""
        return KeyHome(self.partitioner, self.judging, self.number) if self.lineage.has_grown else None

    def partition_of(self) -> Callable[[bytes], int] | None:
        """The partition that a key hashes to; None: that is not checked."""
        return partition_function(self.partitioner, self.judging)

    def heir_of(self) -> Callable[[bytes], int | None] | None:
        """The child that has a key of this partition's now; None: nothing has moved."""
        if not self.lineage.has_grown:
            return None
        lineage, number, partitioner = self.lineage, self.number, self.partitioner
        return lambda key: lineage.heir(number, lambda count: target(partitioner, key, count))
