"""The work of a repartitioning, counted and estimated on the real broker, by the partition history."""

from pathlib import Path

import pytest

from cqrs_cli.deciding.repartition import PlannedRepartitioning
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Grow
from cqrs_cli.scans.repartitioning import RepartitioningWork, repartitioning_work
from tests.deciding.repartitioned_counters import SUBJECTS, counters, run_first_rounds
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import current_lineage, repartition_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    harness = counters(connection, prefix, tmp_path)
    run_first_rounds(harness)
    return harness


def estimate_work(harness: TopicHarness, partition_history: PartitionLineage) -> RepartitioningWork:
    key_space = KeySpace(partition_history, "murmur2")
    planned = PlannedRepartitioning(harness.partitions, key_space.counts[-1], True, key_space)
    return repartitioning_work(harness.connection, harness.topics, planned)


def moving_deferred(harness: TopicHarness, count: int) -> dict[int, int]:
    """Count the subjects that move with this partition count, by their present partition."""
    partition_before = {subject: harness.partition_of(subject) for subject in SUBJECTS}
    harness.partitions, count_before = count, harness.partitions
    moved_from = [
        partition_before[subject]
        for subject in SUBJECTS
        if harness.partition_of(subject) != partition_before[subject]
    ]
    harness.partitions = count_before
    return {number: moved_from.count(number) for number in range(count_before)}


def test_deferred_commands_that_move_are_counted(harness: TopicHarness) -> None:
    estimate = estimate_work(harness, PartitionLineage((2, 6)))
    assert {partition.partition: partition.deferred for partition in estimate.moving} == moving_deferred(
        harness, 6
    )
    assert [partition.children for partition in estimate.moving] == [(2, 4), (3, 5)]


def test_events_that_move_are_estimated(harness: TopicHarness) -> None:
    """The estimate uses the share of moving keys, and each target reads its parent's log."""
    sizes = [harness.stable_end("events", number) for number in range(2)]
    estimate = estimate_work(harness, PartitionLineage((2, 4)))
    assert [partition.events for partition in estimate.moving] == [round(size / 2) for size in sizes]
    assert estimate.events_to_read == 2 * sum(sizes) and estimate.seconds == pytest.approx(
        estimate.events_to_read / 160_000
    )


def test_only_pending_splits_count(harness: TopicHarness) -> None:
    repartition_topics(harness, 4)
    assert [partition.partition for partition in estimate_work(harness, current_lineage(harness)).moving] == [
        0,
        1,
    ]
    run_plan(harness.plan())
    assert estimate_work(harness, current_lineage(harness)).moving == ()
    next_moves = estimate_work(harness, current_lineage(harness).with_record(Grow(4, 8))).moving
    assert {partition.partition: partition.deferred for partition in next_moves} == moving_deferred(
        harness, 8
    )
