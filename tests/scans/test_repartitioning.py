"""The work of a repartitioning, counted and estimated on the real broker, by the partition history."""

from pathlib import Path

import pytest

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.repartitioning import Grow
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.repartitioning import GrowthWork, growth_work
from tests.deciding.repartitioned_counters import SUBJECTS, counters, run_first_rounds
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import current_lineage, repartition_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    found = counters(connection, prefix, tmp_path)
    run_first_rounds(found)
    return found


def work(harness: TopicHarness, known: PartitionLineage) -> GrowthWork:
    return growth_work(harness.connection, harness.topics, known, "murmur2")


def moving(harness: TopicHarness, count: int) -> dict[int, int]:
    """Count the subjects that move with this partition count, by their present partition."""
    before = {one: harness.partition_of(one) for one in SUBJECTS}
    harness.partitions, known = count, harness.partitions
    moved = [before[one] for one in SUBJECTS if harness.partition_of(one) != before[one]]
    harness.partitions = known
    return {one: moved.count(one) for one in range(known)}


def test_deferred_commands_that_move_are_counted(pair: TopicHarness) -> None:
    found = work(pair, PartitionLineage((2, 6)))
    assert {one.partition: one.deferred for one in found.moving} == moving(pair, 6)
    assert [one.children for one in found.moving] == [(2, 4), (3, 5)]


def test_events_that_move_are_estimated(pair: TopicHarness) -> None:
    """The estimate uses the share of moving keys, and each target reads its parent's log."""
    sizes = [pair.stable_end("events", one) for one in range(2)]
    found = work(pair, PartitionLineage((2, 4)))
    assert [one.events for one in found.moving] == [round(size / 2) for size in sizes]
    assert found.read == 2 * sum(sizes) and found.seconds == pytest.approx(found.read / 160_000)


def test_only_what_is_left_counts(pair: TopicHarness) -> None:
    repartition_topics(pair, 4)
    assert [one.partition for one in work(pair, current_lineage(pair)).moving] == [0, 1]
    run_plan(pair.plan())
    assert work(pair, current_lineage(pair)).moving == ()
    again = work(pair, current_lineage(pair).with_record(Grow(4, 8))).moving
    assert {one.partition: one.deferred for one in again} == moving(pair, 8)
