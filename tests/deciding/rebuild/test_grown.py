"""Shards of future partitions are made before the repartitioning, so that the next run folds only later records."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.catch_up import fold_unfenced
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.rebuild.rebuild import rebuild_shards
from cqrs_cli.deciding.repartition import plan_with_future_partitions
from cqrs_cli.errors import UsageError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_readonly, open_shard
from tests.deciding.repartitioned_counters import (
    SUBJECTS,
    check_decided_once,
    counters,
    release_commands,
    round_commands,
    run_first_rounds,
)
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import count_reasons, repartition_topics
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


_READ_STARTS: list[tuple[int, str, int]] = []


class _RecordingLog(PartitionLog):
    """A log that records the starts of its reads."""

    def read(self, kind: Kind, start: int, end: int, batch: int = 10_000) -> Iterator[list[Record]]:
        _READ_STARTS.append((self.partition, kind, start))
        return super().read(kind, start, end, batch)


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    harness_with_deferred = counters(connection, prefix, tmp_path)
    run_first_rounds(harness_with_deferred)
    eventually(lambda: harness_with_deferred.is_stable("outcomes"))
    return harness_with_deferred


def build(harness: TopicHarness, count: int, machine: str) -> dict[Partition, int]:
    """Make the shards for `count` partitions on a machine, and return the number of aggregates in each."""
    plan = plan_with_future_partitions(harness.plan(once=False, machine=machine), "counter", count)
    built = rebuild_shards(plan, lambda now: None, lambda text: None)
    return {partition: result.shard.aggregates for partition, result in built.items()}


def inherited_value(harness: TopicHarness, machine: str, partition: int) -> bytes:
    store = open_readonly(harness.shard_path(machine, partition))
    assert store is not None
    value = store.get_value("inherited")
    store.close_without_sync()
    return value


def test_child_shards_are_built_before_repartitioning(harness: TopicHarness) -> None:
    """A child's shard has its own keys and the positions of its parents.

    The run adds later records, ids and deferrals.
    """
    built = build(harness, 4, "new")
    assert built[Partition("counter", 0)] + built[Partition("counter", 1)] == 12
    assert 0 < built[Partition("counter", 2)] + built[Partition("counter", 3)] < 12
    harness.send(*round_commands(2))
    run_plan(harness.plan())
    repartition_topics(harness, 4)
    harness.send(*round_commands(0))
    run_plan(harness.plan(machine="new"))
    assert sum(count_reasons(harness, partition)["duplicate"] for partition in range(4)) == 12
    harness.send(*release_commands(1))
    run_plan(harness.plan(machine="new"))
    run_plan(harness.plan(machine="new"))  # the released commands are decided
    check_decided_once(harness, 0, 2, 1, machine="new")


def test_prepared_shards_are_used(harness: TopicHarness) -> None:
    """Only the tail of the parents' logs is read. The prepared shards are not quarantined."""
    build(harness, 4, "new")
    inherited_values = {partition: inherited_value(harness, "new", partition) for partition in (2, 3)}
    repartition_topics(harness, 4)
    inodes = {partition: harness.shard_path("new", partition).stat().st_ino for partition in range(4)}
    run_plan(harness.plan(machine="new"))
    assert {partition: harness.shard_path("new", partition).stat().st_ino for partition in range(4)} == inodes
    assert all(inherited_values.values())


def test_shard_ahead_of_log_is_rebuilt(harness: TopicHarness) -> None:
    """Kafka has lost a commit that was visible when the shard was made."""
    build(harness, 4, "new")
    path, child = harness.shard_path("new", 3), Partition("counter", 3)
    identity = plan_with_future_partitions(harness.plan(), "counter", 4).identity(child, harness.aggregate)
    with closing(open_shard(path, identity).store) as store:
        store.set_value("inherited", b'{"1":[0,0,1000000]}', store.token())
    inode = path.stat().st_ino
    repartition_topics(harness, 4)
    run_plan(harness.plan(machine="new"))
    assert path.stat().st_ino != inode
    check_decided_once(harness, 0, machine="new")


def test_shard_before_the_split_is_rebuilt(harness: TopicHarness) -> None:
    """The shards were planned before the repartitioning, but built after the parents had split and decided further
    commands.
    """
    plan = plan_with_future_partitions(harness.plan(once=False, machine="new"), "counter", 4)
    repartition_topics(harness, 4)
    run_plan(harness.plan())
    harness.send(*round_commands(2))
    run_plan(harness.plan())
    eventually(lambda: harness.is_stable("outcomes"))
    rebuild_shards(plan, lambda now: None, lambda text: None)
    inode = harness.shard_path("new", 3).stat().st_ino
    harness.send(*round_commands(0))
    run_plan(harness.plan(machine="new"))
    assert harness.shard_path("new", 3).stat().st_ino != inode
    check_decided_once(harness, 0, 2, machine="new")


def test_second_repartitioning_uses_prepared_shards(harness: TopicHarness) -> None:
    """The grandparents have decided more since their split."""
    repartition_topics(harness, 4)
    run_plan(harness.plan())
    harness.send(*round_commands(2))
    run_plan(harness.plan())
    eventually(lambda: harness.is_stable("outcomes"))
    build(harness, 8, "new")
    repartition_topics(harness, 8)
    inodes = {partition: harness.shard_path("new", partition).stat().st_ino for partition in range(8)}
    run_plan(harness.plan(machine="new"))
    assert {partition: harness.shard_path("new", partition).stat().st_ino for partition in range(8)} == inodes
    check_decided_once(harness, 0, 2, machine="new")


def test_partition_count_must_be_a_multiple(harness: TopicHarness) -> None:
    with pytest.raises(UsageError, match="3 is not a multiple"):
        build(harness, 3, "new")


def test_children_fold_before_the_split(harness: TopicHarness, tmp_path: Path) -> None:
    """While a child waits for its parent, it folds visible records, and it reads each record once."""
    repartition_topics(harness, 4)
    plan, child = harness.plan(once=False), Partition("counter", 3)
    (tmp_path / "shard").mkdir()
    with closing(LmdbStore(tmp_path / "shard", plan.deciding.window)) as store:
        log = _RecordingLog(harness.connection, harness.topics, 3)
        for expected_starts in ([0], []):
            _READ_STARTS.clear()
            fold_unfenced(plan, child, log, harness.aggregate, store)
            assert [
                start for number, kind, start in _READ_STARTS if (number, kind) == (1, "events")
            ] == expected_starts
        assert {name for name, _ in store.items()} == {
            subject for subject in SUBJECTS if harness.partition_of(subject) == 3
        }
