"""Partition histories: requests, splits in any allowed order, and activated targets."""

from typing import Any

from hypothesis import strategies as st

from cqrs_cli.core.lineage import PartitionAmong, PartitionLineage
from cqrs_cli.core.messages.repartitioning import Begun, Grow, LineageRecord, Split


def deciding(lineage: PartitionLineage, home: PartitionAmong) -> list[int]:
    """Return the partitions that decide a key, by its partition among `count`. There is always exactly one."""
    judging = ((one, lineage.active_count(one)) for one in range(lineage.counts[-1]))
    return [one for one, count in judging if count is not None and home(count) == one]


def split(lineage: PartitionLineage, partition: int, there: int) -> Split:
    """Return the next split of a partition with empty logs."""
    before, after = lineage.active_count(partition), lineage.next_count(partition, there)
    assert before is not None and after is not None
    return Split(partition, before, after, 0, 0, 0, 0, 0)


def possible(lineage: PartitionLineage, multiples: list[int]) -> list[LineageRecord]:
    """Return the records that may be appended next."""
    last, there = lineage.counts[-1], range(lineage.counts[-1])
    grown = [Grow(last, last * one) for one in multiples if last * one <= 24]
    splits = [split(lineage, one, last) for one in there if lineage.phase(one, last) == "settle"]
    return [*grown, *splits, *(Begun(one) for one in there if lineage.phase(one, last) == "adopt")]


@st.composite
def lineages(draw: Any) -> PartitionLineage:
    """Draw any history that begins with 1 to 4 partitions and has at most 24."""
    lineage = PartitionLineage((draw(st.integers(1, 4)),))
    for _ in range(draw(st.integers(0, 30))):
        if not (choices := possible(lineage, [2, 3])):
            break
        lineage = lineage.with_record(draw(st.sampled_from(choices)))
    return lineage
