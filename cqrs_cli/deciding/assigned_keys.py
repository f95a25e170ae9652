"""The assigned keys of one partition, derived from the partition history of its aggregate."""

from collections.abc import Callable
from typing import NamedTuple

from cqrs_cli.core.lineage import PartitionLineage, Phase
from cqrs_cli.kafka.topics.partitioner import KeyHome, Partitioner, partition_function, target_partition


class AssignedKeys(NamedTuple):
    """The assigned keys of partition `number`. `there`: the number of partitions that all topics have, by the plan."""

    lineage: PartitionLineage
    number: int
    there: int
    partitioner: Partitioner

    @property
    def judging(self) -> int:
        """The count by which the partition assigns keys. A pending child will begin with this count."""
        return self.lineage.effective_count(self.number)

    @property
    def phase(self) -> Phase:
        """The next task of the owner: `"wait"`, `"adopt"`, `"settle"` or `"decide"`."""
        return self.lineage.phase(self.number, self.there)

    @property
    def keeps(self) -> KeyHome | None:
        """The filter for the partition's own keys; None if it has all keys of its logs, because no key has moved."""
        return (
            KeyHome(self.partitioner, self.judging, self.number) if self.lineage.was_repartitioned else None
        )

    def partition_of(self) -> Callable[[bytes], int] | None:
        """Return the function from a key to the partition that it hashes to; None if this is not checked."""
        return partition_function(self.partitioner, self.judging)

    def heir_of(self) -> Callable[[bytes], int | None] | None:
        """Return a function from a key to the child that the key moved to, or to None for an own key. Return None if no
        key has moved.
        """
        if not self.lineage.was_repartitioned:
            return None
        lineage, number, partitioner = self.lineage, self.number, self.partitioner
        return lambda key: lineage.forward_target(
            number, lambda count: target_partition(partitioner, key, count)
        )
