"""Partition histories: requests, splits in any allowed order, and activated child partitions."""

from typing import Any

from hypothesis import strategies as st

from cqrs_cli.keyspace.lineage import PartitionAmong, PartitionLineage
from cqrs_cli.keyspace.records import Begun, Grow, LineageRecord, Split


def partitions_that_decide(lineage: PartitionLineage, partition_among: PartitionAmong) -> list[int]:
    """Return the partitions that decide a key, by its partition among `count`. There is always exactly one."""
    active_counts = ((number, lineage.active_count(number)) for number in range(lineage.counts[-1]))
    return [
        partition
        for partition, count in active_counts
        if count is not None and partition_among(count) == partition
    ]


def next_split(lineage: PartitionLineage, partition: int, topic_partitions: int) -> Split:
    """Return the next split of a partition whose logs are empty. `topic_partitions`: as in `PartitionLineage`."""
    count, next_count = lineage.active_count(partition), lineage.next_count(partition, topic_partitions)
    assert count is not None and next_count is not None
    return Split(partition, count, next_count, 0, 0, 0, 0, 0)


def possible_records(lineage: PartitionLineage, multiples: list[int]) -> list[LineageRecord]:
    """Return the records that may be appended next."""
    last, numbers = lineage.counts[-1], range(lineage.counts[-1])
    repartitionings = [Grow(last, last * multiple) for multiple in multiples if last * multiple <= 24]
    splits = [
        next_split(lineage, number, last) for number in numbers if lineage.phase(number, last) == "settle"
    ]
    return [
        *repartitionings,
        *splits,
        *(Begun(number) for number in numbers if lineage.phase(number, last) == "adopt"),
    ]


@st.composite
def lineages(draw: Any) -> PartitionLineage:
    """Draw any history that begins with 1 to 4 partitions and has at most 24."""
    lineage = PartitionLineage((draw(st.integers(1, 4)),))
    for _ in range(draw(st.integers(0, 30))):
        if not (choices := possible_records(lineage, [2, 3])):
            break
        lineage = lineage.with_record(draw(st.sampled_from(choices)))
    return lineage
