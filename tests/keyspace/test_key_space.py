"""The key space: after any repartitionings a reader reads each record of a key once, in order."""

from collections import defaultdict
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Split
from tests.support.partition_histories import partitions_that_decide, possible_records

KEYS = [b"%d" % number for number in range(12)]
BOUNDS = dict.fromkeys(range(24), (0, 9))


def log(partition: int) -> PartitionLog:
    return PartitionLog(Connection("localhost:1"), Topics("bank"), partition)


class Written(NamedTuple):
    """A key space, and the events that its owners have written: by partition, the key of each event in order."""

    key_space: KeySpace
    events: dict[int, list[bytes]]

    @property
    def ends(self) -> dict[int, int]:
        """The end of each partition's events."""
        return {partition: len(self.events[partition]) for partition in self.key_space.partitions}


@st.composite
def histories(draw: Any) -> Written:
    """Draw a history of repartitionings, in which owners write events before and after each split."""
    key_space = KeySpace.fixed(draw(st.integers(1, 3)), "murmur2")
    events: dict[int, list[bytes]] = defaultdict(list)
    for _ in range(draw(st.integers(0, 20))):
        lineage = key_space.lineage
        if draw(st.booleans()):
            key = draw(st.sampled_from(KEYS))
            (owner,) = partitions_that_decide(lineage, partial(producer_partition, "murmur2", key))
            events[owner].append(key)
        elif choices := possible_records(lineage, [2, 3]):
            record = draw(st.sampled_from(choices))
            if isinstance(record, Split):
                record = replace(record, events=len(events[record.partition]))
            key_space = KeySpace(lineage.with_record(record), "murmur2")
    return Written(key_space, events)


def read_events(written: Written, partition: int) -> list[tuple[int, int, bytes]]:
    """Return partition, offset and key of each event that a reader of the partition's keys reads."""
    bounds = {number: (0, end) for number, end in written.ends.items()}
    return [
        (segment.log.partition, offset, key)
        for segment in written.key_space.log_segments(log(partition), bounds)
        for offset, key in enumerate(written.events[segment.log.partition])
        if segment.start <= offset < segment.end
        if segment.log.key_filter is None or segment.log.key_filter.matches(key)
    ]


@given(histories())
def test_segments_cover_each_record_once(written: Written) -> None:
    events = [
        event for partition in written.key_space.partitions for event in read_events(written, partition)
    ]
    assert sorted(events) == sorted(
        (partition, offset, key)
        for partition, keys in written.events.items()
        for offset, key in enumerate(keys)
    )
    assert all(
        key in KEYS and written.key_space.partition_of(key) == partition
        for partition in written.key_space.partitions
        for _, _, key in read_events(written, partition)
    )


@given(histories())
def test_unknown_splits_do_not_matter(written: Written) -> None:
    """A reader of finished logs reads the same events with the partition counts alone."""
    without_splits = KeySpace(PartitionLineage(written.key_space.counts), "murmur2")
    for partition in written.key_space.partitions:
        assert read_events(written._replace(key_space=without_splits), partition) == read_events(
            written, partition
        )


def is_ready(written: Written, partition: int, positions: dict[int, int]) -> bool:
    """The rule: a partition is ready once the reader has passed every split that gave the partition its keys."""
    key_space = written.key_space
    splits = [split for _, split in key_space.segments(partition)[:-1]]
    return all(split is not None and positions[split.partition] >= split.events for split in splits)


@given(histories(), st.data())
def test_child_is_ready_after_splits(written: Written, data: st.DataObject) -> None:
    """A reader that reads one event at a time, from ready partitions only, always finds the rule's partitions ready."""
    positions = dict.fromkeys(written.key_space.partitions, 0)
    for _ in range(data.draw(st.integers(0, 30))):
        ready = [number for number in positions if written.key_space.is_ready(number, positions)]
        assert ready == [number for number in positions if is_ready(written, number, positions)]
        if not (unread := [number for number in ready if positions[number] < written.ends[number]]):
            break
        positions[data.draw(st.sampled_from(unread))] += 1


@given(histories(), st.data())
def test_ready_readers_keep_the_order(written: Written, data: st.DataObject) -> None:
    """A key's events are read in the order in which they were written, and all are read."""
    key_space, positions, read = written.key_space, dict.fromkeys(written.key_space.partitions, 0), []
    while unread := [
        number
        for number, position in positions.items()
        if position < written.ends[number] and key_space.is_ready(number, positions)
    ]:
        partition = data.draw(st.sampled_from(unread))
        read.append((written.events[partition][positions[partition]], partition, positions[partition]))
        positions[partition] += 1
    assert positions == written.ends
    for key in KEYS:
        places = [(partition, offset) for event_key, partition, offset in read if event_key == key]
        assert places == sorted(places) and {partition for partition, _ in places} <= {
            *key_space.partitions_with(key)
        }


@given(histories(), st.sampled_from(KEYS))
def test_deferred_commands_count_once(written: Written, key: bytes) -> None:
    """Several partitions may have entries of a deferred command. Exactly one of them holds the command."""
    key_space = written.key_space
    if key_space.was_repartitioned:
        assert sum(key_space.holds_deferred(partition, key) for partition in key_space.partitions) == 1


def test_fixed_key_space_filters_nothing() -> None:
    (segment,) = KeySpace.fixed(4, "murmur2").log_segments(log(3), BOUNDS)
    assert segment == (log(3), 0, 9)
    assert all(KeySpace.fixed(4, "none").is_ready(partition, {}) for partition in range(4))


@pytest.mark.parametrize(("positions", "counts"), [(4, (4,)), (8, (4, 8)), (3, (4, 8))])
def test_positions_show_the_count(positions: int, counts: tuple[int, ...]) -> None:
    key_space = KeySpace(PartitionLineage((4, 8)), "murmur2")
    assert key_space.as_of(dict.fromkeys(range(positions), 0)).counts == counts
