"""Ranges of offsets cover a read exactly, for any sizes and limits."""

from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.spark.offset_ranges import OFFSETS_PER_TASK, OffsetRange, Offsets, limit_ends, split_ranges

OFFSETS = st.dictionaries(st.integers(0, 5), st.integers(0, 60), max_size=4)


def offsets_in(ranges: list[OffsetRange]) -> list[tuple[int, int]]:
    return [
        (offset_range.partition, offset)
        for offset_range in ranges
        for offset in range(offset_range.start, offset_range.end)
    ]


def offsets_between(starts: Offsets, ends: Offsets) -> list[tuple[int, int]]:
    return [
        (number, offset) for number in sorted(ends) for offset in range(starts.get(number, 0), ends[number])
    ]


@given(OFFSETS, OFFSETS, st.none() | st.integers(1, 70))
def test_each_offset_is_in_one_range(starts: Offsets, ends: Offsets, splits: int | None) -> None:
    ranges = split_ranges(starts, ends, splits)
    assert offsets_in(ranges) == offsets_between(starts, ends)
    assert all(offset_range.start < offset_range.end for offset_range in ranges)


@given(st.integers(1, 70), st.integers(0, 200))
def test_splits_are_nearly_equal(splits: int, end: int) -> None:
    lengths = [offset_range.end - offset_range.start for offset_range in split_ranges({}, {0: end}, splits)]
    assert len(lengths) == min(splits, end)
    assert not lengths or max(lengths) - min(lengths) <= 1


def test_large_partitions_are_cut_by_size() -> None:
    ranges = split_ranges({0: 7}, {0: 7 + 3 * OFFSETS_PER_TASK + 1, 1: 1})
    assert [offset_range.partition for offset_range in ranges] == [0, 0, 0, 0, 1]
    assert max(offset_range.end - offset_range.start for offset_range in ranges) <= OFFSETS_PER_TASK


@given(OFFSETS, OFFSETS, st.integers(1, 200))
def test_limited_batches_read_each_offset_once(starts: Offsets, ends: Offsets, limit: int) -> None:
    """Batch by batch each offset is read once, and no batch exceeds the limit."""
    ends = {number: max(end, starts.get(number, 0)) for number, end in ends.items()}
    read = []
    position = dict(starts)
    while offsets_between(position, ends):
        limited = limit_ends(position, ends, limit)
        batch = offsets_between(position, limited)
        assert 0 < len(batch) <= limit
        read += batch
        position = limited
    assert sorted(read) == offsets_between(starts, ends)


def test_limit_shares_by_backlog() -> None:
    assert limit_ends({0: 0, 1: 50}, {0: 90, 1: 60}, 20) == {0: 18, 1: 52}
