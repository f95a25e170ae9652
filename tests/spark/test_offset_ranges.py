"""Ranges of offsets cover a read exactly, for any sizes and limits."""

from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.spark.offset_ranges import OFFSETS_PER_TASK, OffsetRange, Offsets, limit_ends, split_ranges

OFFSETS = st.dictionaries(st.integers(0, 5), st.integers(0, 60), max_size=4)


def covered(ranges: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(part.partition, offset) for part in ranges for offset in range(part.start, part.end)]


def wanted(starts: Offsets, ends: Offsets) -> list[tuple[int, int]]:
    return [(number, one) for number in sorted(ends) for one in range(starts.get(number, 0), ends[number])]


@given(OFFSETS, OFFSETS, st.none() | st.integers(1, 70))
def test_each_offset_is_in_one_range(starts: Offsets, ends: Offsets, splits: int | None) -> None:
    ranges = split_ranges(starts, ends, splits)
    assert covered(ranges) == wanted(starts, ends)
    assert all(part.start < part.end for part in ranges)


@given(st.integers(1, 70), st.integers(0, 200))
def test_splits_are_nearly_equal(splits: int, end: int) -> None:
    lengths = [part.end - part.start for part in split_ranges({}, {0: end}, splits)]
    assert len(lengths) == min(splits, end)
    assert not lengths or max(lengths) - min(lengths) <= 1


def test_large_partitions_are_cut_by_size() -> None:
    ranges = split_ranges({0: 7}, {0: 7 + 3 * OFFSETS_PER_TASK + 1, 1: 1})
    assert [part.partition for part in ranges] == [0, 0, 0, 0, 1]
    assert max(part.end - part.start for part in ranges) <= OFFSETS_PER_TASK


@given(OFFSETS, OFFSETS, st.integers(1, 200))
def test_limited_batches_end_at_the_end(starts: Offsets, ends: Offsets, most: int) -> None:
    """Batch by batch each offset is read once, and no batch exceeds the limit."""
    ends = {number: max(end, starts.get(number, 0)) for number, end in ends.items()}
    read = []
    at = dict(starts)
    while wanted(at, ends):
        limited = limit_ends(at, ends, most)
        batch = wanted(at, limited)
        assert 0 < len(batch) <= most
        read += batch
        at = limited
    assert sorted(read) == wanted(starts, ends)


def test_limit_shares_by_backlog() -> None:
    assert limit_ends({0: 0, 1: 50}, {0: 90, 1: 60}, 20) == {0: 18, 1: 52}
