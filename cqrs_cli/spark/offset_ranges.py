"""Splits the offsets of a read into ranges, one for each task. Pure."""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

#: Partition → offset.
Offsets = Mapping[int, int]

#: Number of offsets per task if the option `splits` is unset: about a second of work.
OFFSETS_PER_TASK = 250_000


class OffsetRange(NamedTuple):
    """The offsets of a partition: `start` ≤ offset < `end`."""

    partition: int
    start: int
    end: int


def split_ranges(starts: Offsets, ends: Offsets, splits: int | None = None) -> list[OffsetRange]:
    """Return ranges that cover each offset from `starts` to before `ends` once, ordered by partition and offset.

    No range is empty. Each partition is cut into `splits` ranges of nearly equal length; if `splits` is unset, into
    ranges of at most `OFFSETS_PER_TASK` offsets. A partition that is not in `starts` begins at 0.
    """
    ranges = []
    for partition, end in sorted(ends.items()):
        start = starts.get(partition, 0)
        span = end - start
        pieces = splits or -(-span // OFFSETS_PER_TASK)
        cuts = [start + span * piece // pieces for piece in range(pieces + 1)] if span > 0 else []
        ranges += [OffsetRange(partition, low, high) for low, high in pairwise(cuts) if low < high]
    return ranges


def limit_ends(starts: Offsets, ends: Offsets, max_offsets: int) -> dict[int, int]:
    """Return partition → end offset of a read of at most `max_offsets` offsets in total. Each partition gets a share in
    proportion to its backlog.

    If there is a backlog, at least one offset is read. A partition that is not in `starts` begins at 0.
    """
    backlog = {partition: max(0, end - starts.get(partition, 0)) for partition, end in ends.items()}
    total = sum(backlog.values())
    if total <= max_offsets:
        return dict(ends)
    shares = {partition: lag * max_offsets // total for partition, lag in backlog.items()}
    remaining = max_offsets - sum(shares.values())
    for partition, lag in backlog.items():
        if remaining and shares[partition] < lag:
            shares[partition] += 1
            remaining -= 1
    return {partition: starts.get(partition, 0) + share for partition, share in shares.items()}
