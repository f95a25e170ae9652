"""The partition history: the keys of each partition, and the logs of each key."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_fields

from cqrs_cli.keyspace.lineage import LineageError, PartitionLineage, fold_lineage
from cqrs_cli.keyspace.records import Begun, Grow, LineageRecord, Split
from tests.support.partition_histories import lineages, next_split, partitions_that_decide

HASHES = st.integers(0, 2**31 - 1)


def deciding_partitions(lineage: PartitionLineage, key_hash: int) -> list[int]:
    """Return the partitions that decide this key."""
    return partitions_that_decide(lineage, lambda count: key_hash % count)


def forwarding_path(lineage: PartitionLineage, key_hash: int, partition: int) -> list[int]:
    """Return `partition`, and then the partitions to which a command is forwarded one after the other."""
    path = [partition]
    while (target := lineage.forward_target(path[-1], lambda count: key_hash % count)) is not None:
        path.append(target)
    return path


@given(lineages(), HASHES)
def test_every_key_has_one_deciding_partition(lineage: PartitionLineage, key_hash: int) -> None:
    assert len(deciding_partitions(lineage, key_hash)) == 1


@given(lineages(), HASHES)
def test_former_partitions_forward_to_the_current(lineage: PartitionLineage, key_hash: int) -> None:
    """A command from each outdated partition of its key is forwarded step by step, to ever higher numbers."""
    (current,) = deciding_partitions(lineage, key_hash)
    for count in lineage.counts:
        if (partition := key_hash % count) <= current:
            path = forwarding_path(lineage, key_hash, partition)
            assert path == sorted(set(path)) and path[-1] == current


@given(lineages(), HASHES, st.integers(0, 23))
def test_commands_are_forwarded_to_children(lineage: PartitionLineage, key_hash: int, partition: int) -> None:
    """Commands are forwarded only to partitions that got keys from the forwarding partition."""
    children = lineage.child_partitions(partition)
    assert lineage.forward_target(partition, lambda count: key_hash % count) in [None, *children]
    splits = {number: lineage.split_creating(number) for number in range(lineage.counts[-1])}
    assert children == [number for number, split in splits.items() if split and split.partition == partition]


@given(lineages(), HASHES, st.integers(0, 23))
def test_foreign_partitions_forward_nothing(lineage: PartitionLineage, key_hash: int, partition: int) -> None:
    is_foreign = all(key_hash % count != partition for count in lineage.counts)
    assert not is_foreign or lineage.forward_target(partition, lambda count: key_hash % count) is None


@given(lineages(), HASHES)
def test_segments_have_every_deciding_partition(lineage: PartitionLineage, key_hash: int) -> None:
    segments = [partition for partition, _ in lineage.segments(key_hash % lineage.counts[-1])]
    assert (
        set(deciding_partitions(lineage, key_hash))
        <= set(segments)
        == {key_hash % count for count in lineage.counts}
    )
    assert segments == sorted(segments)


@given(lineages(), HASHES)
def test_inherited_splits_are_earlier_segments(lineage: PartitionLineage, key_hash: int) -> None:
    (current,) = deciding_partitions(lineage, key_hash)
    inherited = [split.partition for split in lineage.inherited_splits(current)]
    segments = [partition for partition, _ in lineage.segments(key_hash % lineage.counts[-1])]
    assert [*inherited, current] == segments[: len(inherited) + 1]
    assert inherited == [lineage.parent(target) for target in [*inherited[1:], current]][: len(inherited)]


@given(lineages(), st.data())
def test_readers_read_parents_first(lineage: PartitionLineage, data: st.DataObject) -> None:
    """A reader starts a child partition only after its ancestors' events up to each split are read."""
    splits = tuple(replace_fields(split, events=data.draw(st.integers(0, 3))) for split in lineage.splits)
    lineage_with_events = replace(lineage, splits=splits)
    positions = {number: data.draw(st.integers(0, 3)) for number in range(lineage.counts[-1])}
    for partition in positions:
        if (
            lineage_with_events.is_ready(partition, positions)
            and lineage_with_events.parent(partition) is not None
        ):
            creating_split = lineage_with_events.split_creating(partition)
            assert creating_split is not None and positions[creating_split.partition] >= creating_split.events
            if positions[creating_split.partition] == 0:
                assert lineage_with_events.is_ready(creating_split.partition, positions)


def test_reader_starts_after_the_split() -> None:
    lineage = PartitionLineage((1, 2), (Split(0, 1, 2, 9, 5, 9, 0, 0),))
    assert [lineage.is_ready(1, {0: position}) for position in (0, 4, 5, 6)] == [False, False, True, True]
    assert lineage.is_ready(0, {}) and not PartitionLineage((1, 2)).is_ready(1, {0: 99})


@given(lineages(), HASHES)
def test_deferred_commands_have_one_partition(lineage: PartitionLineage, key_hash: int) -> None:
    """The partition that decides the key has them, or its parent while the partition is not activated."""
    (current,) = deciding_partitions(lineage, key_hash)
    is_pending = lineage.split_creating(current) is not None and current not in lineage.activated
    assert lineage.deferred_partition(key_hash % lineage.counts[-1]) == (
        lineage.parent(current) if is_pending else current
    )


def test_counts_above_the_topics_are_dropped() -> None:
    lineage = PartitionLineage((2,)).with_record(Grow(2, 4)).with_record(Grow(4, 8))
    assert lineage.up_to_count(4).counts == (2, 4)


def test_phases_follow_each_other() -> None:
    lineage = PartitionLineage((2,)).with_record(Grow(2, 4))
    assert [lineage.phase(number, 4) for number in range(4)] == ["settle", "settle", "wait", "wait"]
    lineage = lineage.with_record(next_split(lineage, 1, 4))
    assert [lineage.phase(number, 4) for number in range(4)] == ["settle", "decide", "wait", "adopt"]
    assert lineage.with_record(Begun(3)).phase(3, 4) == "decide"


def test_request_waits_for_the_topics() -> None:
    """A repartitioning request takes effect only when the topics have the new partitions."""
    lineage = PartitionLineage((2,)).with_record(Grow(2, 4))
    assert lineage.phase(0, 2) == "decide" and lineage.phase(0, 4) == "settle"


def test_stages_end_with_the_repartitioning() -> None:
    lineage = PartitionLineage((2,)).with_record(Grow(2, 4))
    stages = [dict(lineage.stages(2)), dict(lineage.stages(4))]
    for record in (next_split(lineage, 0, 4), Begun(2), next_split(lineage, 1, 4)):
        lineage = lineage.with_record(record)
        stages.append(lineage.stages(4))
    assert [" ".join(partition_stages.values()) for partition_stages in stages] == [
        *("grows grows waits waits", "settles settles waits waits", "split settles adopts waits"),
        *("split settles begun waits", "split split begun adopts"),
    ]
    assert lineage.with_record(Begun(3)).stages(4) == PartitionLineage((4,)).stages(4) == {}


def test_one_repartitioning_at_a_time() -> None:
    lineage = fold_lineage([Grow(1, 2), Grow(2, 4)], 1)
    assert lineage.next_count(0, 4) == 2
    lineage = lineage.with_record(next_split(lineage, 0, 4))
    assert lineage.next_count(0, 4) == 4 and lineage.next_count(1, 4) == 4


def test_first_request_wins() -> None:
    lineage = fold_lineage([Grow(1, 2), Grow(1, 3), Grow(2, 3), Grow(2, 2), Grow(2, 6)], 1)
    assert lineage.counts == (1, 2, 6)


def test_history_without_request_has_one_count() -> None:
    assert fold_lineage([], 7) == PartitionLineage((7,)) and not PartitionLineage((7,)).was_repartitioned


@pytest.mark.parametrize(
    "record",
    [Split(0, 1, 4, *[0] * 5), Split(1, 2, 4, *[0] * 5), Split(0, 2, 4, *[0] * 5), Begun(0), Begun(1)],
)
def test_impossible_records_are_refused(record: LineageRecord) -> None:
    with pytest.raises(LineageError):
        PartitionLineage((1, 2, 4)).with_record(record)
