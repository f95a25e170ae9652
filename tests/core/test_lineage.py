"""The partition history: the keys of each partition, and the logs of each key."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from cqrs_cli.core.lineage import LineageError, PartitionLineage, fold_lineage
from cqrs_cli.core.messages.repartitioning import Begun, Grow, LineageRecord, Split
from tests.support.partition_histories import deciding, lineages, split

HASHES = st.integers(0, 2**31 - 1)


def homes(lineage: PartitionLineage, hashed: int) -> list[int]:
    """Return the partitions that decide this key."""
    return deciding(lineage, lambda count: hashed % count)


def travelled(lineage: PartitionLineage, hashed: int, partition: int) -> list[int]:
    """Return the partitions through which a command is forwarded, with the first."""
    path = [partition]
    while (child := lineage.forward_target(path[-1], lambda count: hashed % count)) is not None:
        path.append(child)
    return path


@given(lineages(), HASHES)
def test_every_key_has_one_home(lineage: PartitionLineage, hashed: int) -> None:
    assert len(homes(lineage, hashed)) == 1


@given(lineages(), HASHES)
def test_old_homes_forward_to_the_home(lineage: PartitionLineage, hashed: int) -> None:
    """A command from each outdated partition of its key is forwarded step by step, to ever higher numbers."""
    (home,) = homes(lineage, hashed)
    for count in lineage.counts:
        if (partition := hashed % count) <= home:
            path = travelled(lineage, hashed, partition)
            assert path == sorted(set(path)) and path[-1] == home


@given(lineages(), HASHES, st.integers(0, 23))
def test_heirs_are_children(lineage: PartitionLineage, hashed: int, partition: int) -> None:
    """Commands are forwarded only to partitions that got keys from the forwarding partition."""
    children = lineage.target_partitions(partition)
    assert lineage.forward_target(partition, lambda count: hashed % count) in [None, *children]
    born = {one: lineage.split_creating(one) for one in range(lineage.counts[-1])}
    assert children == [one for one, split in born.items() if split and split.partition == partition]


@given(lineages(), HASHES, st.integers(0, 23))
def test_strangers_forward_nothing(lineage: PartitionLineage, hashed: int, partition: int) -> None:
    stranger = all(hashed % count != partition for count in lineage.counts)
    assert not stranger or lineage.forward_target(partition, lambda count: hashed % count) is None


@given(lineages(), HASHES)
def test_chains_hold_every_home(lineage: PartitionLineage, hashed: int) -> None:
    chain = lineage.segments(hashed % lineage.counts[-1])
    assert set(homes(lineage, hashed)) <= set(chain) == {hashed % count for count in lineage.counts}
    assert list(chain) == sorted(chain)


@given(lineages(), HASHES)
def test_ancestry_is_the_chain_so_far(lineage: PartitionLineage, hashed: int) -> None:
    (home,) = homes(lineage, hashed)
    inherited = [one.partition for one in lineage.inherited_splits(home)]
    chain = lineage.segments(hashed % lineage.counts[-1])
    assert (*inherited, home) == chain[: len(inherited) + 1]
    assert inherited == [lineage.parent(child) for child in [*inherited[1:], home]][: len(inherited)]


@given(lineages(), st.data())
def test_readers_read_parents_first(lineage: PartitionLineage, data: st.DataObject) -> None:
    """A reader starts a target partition only after its ancestors' events up to each split are read."""
    splits = tuple(changed(one, events=data.draw(st.integers(0, 3))) for one in lineage.splits)
    told = replace(lineage, splits=splits)
    positions = {one: data.draw(st.integers(0, 3)) for one in range(lineage.counts[-1])}
    for partition in positions:
        if told.may_read(partition, positions) and told.parent(partition) is not None:
            born = told.split_creating(partition)
            assert born is not None and positions[born.partition] >= born.events
            if positions[born.partition] == 0:
                assert told.may_read(born.partition, positions)


def test_reader_begins_behind_the_split() -> None:
    lineage = PartitionLineage((1, 2), (Split(0, 1, 2, 9, 5, 9, 0, 0),))
    assert [lineage.may_read(1, {0: position}) for position in (0, 4, 5, 6)] == [False, False, True, True]
    assert lineage.may_read(0, {}) and not PartitionLineage((1, 2)).may_read(1, {0: 99})


@given(lineages(), HASHES)
def test_deferred_commands_have_one_keeper(lineage: PartitionLineage, hashed: int) -> None:
    """The keeper is the partition that decides the key, or the parent of a partition that is not activated."""
    (home,) = homes(lineage, hashed)
    begins = lineage.split_creating(home) is not None and home not in lineage.activated
    assert lineage.deferred_partition(hashed % lineage.counts[-1]) == (
        lineage.parent(home) if begins else home
    )


def test_lineage_within_its_topics() -> None:
    lineage = PartitionLineage((2,)).with_record(Grow(2, 4)).with_record(Grow(4, 8))
    assert lineage.up_to_count(4).counts == (2, 4)


def test_phases_follow_each_other() -> None:
    lineage = PartitionLineage((2,)).with_record(Grow(2, 4))
    assert [lineage.phase(one, 4) for one in range(4)] == ["settle", "settle", "wait", "wait"]
    lineage = lineage.with_record(split(lineage, 1, 4))
    assert [lineage.phase(one, 4) for one in range(4)] == ["settle", "decide", "wait", "adopt"]
    assert lineage.with_record(Begun(3)).phase(3, 4) == "decide"


def test_topics_are_waited_for() -> None:
    """A repartitioning request without effect on the topics changes nothing."""
    wished = PartitionLineage((2,)).with_record(Grow(2, 4))
    assert wished.phase(0, 2) == "decide" and wished.phase(0, 4) == "settle"


def test_stages_end_with_the_growth() -> None:
    lineage = PartitionLineage((2,)).with_record(Grow(2, 4))
    told = [dict(lineage.stages(2)), dict(lineage.stages(4))]
    for record in (split(lineage, 0, 4), Begun(2), split(lineage, 1, 4)):
        lineage = lineage.with_record(record)
        told.append(lineage.stages(4))
    assert [" ".join(one.values()) for one in told] == [
        *("grows grows waits waits", "settles settles waits waits", "split settles adopts waits"),
        *("split settles begun waits", "split split begun adopts"),
    ]
    assert lineage.with_record(Begun(3)).stages(4) == PartitionLineage((4,)).stages(4) == {}


def test_one_growth_at_a_time() -> None:
    lineage = fold_lineage([Grow(1, 2), Grow(2, 4)], 1)
    assert lineage.next_count(0, 4) == 2
    lineage = lineage.with_record(split(lineage, 0, 4))
    assert lineage.next_count(0, 4) == 4 and lineage.next_count(1, 4) == 4


def test_first_wish_wins() -> None:
    lineage = fold_lineage([Grow(1, 2), Grow(1, 3), Grow(2, 3), Grow(2, 2), Grow(2, 6)], 1)
    assert lineage.counts == (1, 2, 6)


def test_lineage_without_wish_has_one_count() -> None:
    assert fold_lineage([], 7) == PartitionLineage((7,)) and not PartitionLineage((7,)).was_repartitioned


@pytest.mark.parametrize(
    "record",
    [Split(0, 1, 4, *[0] * 5), Split(1, 2, 4, *[0] * 5), Split(0, 2, 4, *[0] * 5), Begun(0), Begun(1)],
)
def test_impossible_records_are_refused(record: LineageRecord) -> None:
    with pytest.raises(LineageError):
        PartitionLineage((1, 2, 4)).with_record(record)
