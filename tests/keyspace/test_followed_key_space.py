"""The key space that a reader follows is read again until a partition's parent has split."""

from collections.abc import Mapping

import pytest

from cqrs_cli.keyspace.followed_key_space import FollowedKeySpace
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Split

FIXED = KeySpace.fixed(1, "murmur2")
PENDING = KeySpace(PartitionLineage((1, 2)), "murmur2")
SPLIT = KeySpace(PartitionLineage((1, 2), (Split(0, 1, 2, 0, 5, 0, 0, 0),)), "murmur2")


def followed(*reads: KeySpace, interval: float = 0.0) -> FollowedKeySpace:
    """Return a key space that is read as often as `reads` has values."""
    return FollowedKeySpace(iter(reads).__next__, interval)


def at(offset: int) -> Mapping[int, int]:
    return {0: offset}


def unread() -> Mapping[int, int]:
    raise AssertionError("positions of an original partition are not needed")


def test_pending_partition_is_read_again() -> None:
    key_space = followed(PENDING, PENDING, SPLIT)
    assert [key_space.is_ready(1, lambda: at(5)) for _ in range(3)] == [False, True, True]


def test_reader_is_ready_after_the_split() -> None:
    key_space = followed(SPLIT)
    assert not key_space.is_ready(1, lambda: at(4)) and key_space.is_ready(1, lambda: at(5))


def test_original_partition_needs_no_positions() -> None:
    assert followed(SPLIT).is_ready(0, unread) and followed(FIXED).is_ready(0, unread)


def test_reads_have_an_interval() -> None:
    key_space = followed(PENDING, interval=1000)
    assert [key_space.is_ready(1, lambda: at(5)) for _ in range(3)] == [False] * 3


def test_repartitioned_key_space_stays_repartitioned() -> None:
    """A broker that has just restarted does not know the topic of the partition history yet."""
    key_space = followed(FIXED, SPLIT, FIXED)
    assert [key_space.refresh().counts for _ in range(3)] == [(1,), (1, 2), (1, 2)]


def test_split_ends_after_the_last_event() -> None:
    """A reader whose positions are directly after events never reaches an offset after transaction markers."""
    key_space = SPLIT.with_event_ends(lambda partition, offset: {(0, 5): 3}[partition, offset])
    assert key_space.is_ready(1, at(3)) and not key_space.is_ready(1, at(2))


@pytest.mark.parametrize("key_space", [FIXED, PENDING, SPLIT])
def test_first_access_reads(key_space: KeySpace) -> None:
    assert followed(key_space).current == key_space
