"""Shards of future partitions are made before the repartitioning, so that the next run folds only later records."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.catch_up import fold_unfenced
from cqrs_cli.deciding.measures import Measures
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


_READ: list[tuple[int, str, int]] = []


class _Watched(PartitionLog):
    """A log that records the starts of its reads."""

    def read(self, kind: Kind, start: int, end: int, batch: int = 10_000) -> Iterator[list[Record]]:
        _READ.append((self.partition, kind, start))
        return super().read(kind, start, end, batch)


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    found = counters(connection, prefix, tmp_path)
    run_first_rounds(found)
    eventually(lambda: found.is_stable("outcomes"))
    return found


def build(harness: TopicHarness, count: int, machine: str) -> dict[Partition, int]:
    """Make the shards for `count` partitions on a machine, and return the number of aggregates in each."""
    plan = plan_with_future_partitions(harness.plan(once=False, machine=machine), "counter", count)
    built = rebuild_shards(plan, lambda now: None, lambda text: None)
    return {one: rebuilt.shard.aggregates for one, rebuilt in built.items()}


def inherited(harness: TopicHarness, machine: str, partition: int) -> bytes:
    store = open_readonly(harness.shard_path(machine, partition))
    assert store is not None
    noted = store.get_value("inherited")
    store.close_without_sync()
    return noted


def test_shards_are_made_before_the_growth(pair: TopicHarness) -> None:
    """A target's shard has its own keys and the positions of its parents.

    The run adds later records, ids and deferrals.
    """
    built = build(pair, 4, "new")
    assert built[Partition("counter", 0)] + built[Partition("counter", 1)] == 12
    assert 0 < built[Partition("counter", 2)] + built[Partition("counter", 3)] < 12
    pair.send(*round_commands(2))
    run_plan(pair.plan())
    repartition_topics(pair, 4)
    pair.send(*round_commands(0))
    run_plan(pair.plan(machine="new"))
    assert sum(count_reasons(pair, one)["duplicate"] for one in range(4)) == 12
    pair.send(*release_commands(1))
    run_plan(pair.plan(machine="new"))
    run_plan(pair.plan(machine="new"))  # the released commands are decided
    check_decided_once(pair, 0, 2, 1, machine="new")


def test_made_shards_are_taken(pair: TopicHarness) -> None:
    """Only the tail of the parents' logs is read. The prepared shards are not quarantined."""
    build(pair, 4, "new")
    before = {one: inherited(pair, "new", one) for one in (2, 3)}
    repartition_topics(pair, 4)
    places = {one: pair.shard_path("new", one).stat().st_ino for one in range(4)}
    run_plan(pair.plan(machine="new"))
    assert {one: pair.shard_path("new", one).stat().st_ino for one in range(4)} == places
    assert all(before.values())


def test_shard_ahead_is_made_again(pair: TopicHarness) -> None:
    """Kafka has lost a commit that was visible when the shard was made."""
    build(pair, 4, "new")
    path, child = pair.shard_path("new", 3), Partition("counter", 3)
    identity = plan_with_future_partitions(pair.plan(), "counter", 4).identity(child, pair.aggregate)
    with closing(open_shard(path, identity).store) as store:
        store.set_value("inherited", b'{"1":[0,0,1000000]}', store.token())
    made = path.stat().st_ino
    repartition_topics(pair, 4)
    run_plan(pair.plan(machine="new"))
    assert path.stat().st_ino != made
    check_decided_once(pair, 0, machine="new")


def test_shard_behind_the_split_is_made_again(pair: TopicHarness) -> None:
    """The shard was meant to be made before the repartitioning, but the parents split and decided more before that."""
    plan = plan_with_future_partitions(pair.plan(once=False, machine="new"), "counter", 4)
    repartition_topics(pair, 4)
    run_plan(pair.plan())
    pair.send(*round_commands(2))
    run_plan(pair.plan())
    eventually(lambda: pair.is_stable("outcomes"))
    rebuild_shards(plan, lambda now: None, lambda text: None)
    made = pair.shard_path("new", 3).stat().st_ino
    pair.send(*round_commands(0))
    run_plan(pair.plan(machine="new"))
    assert pair.shard_path("new", 3).stat().st_ino != made
    check_decided_once(pair, 0, 2, machine="new")


def test_second_growth_takes_made_shards(pair: TopicHarness) -> None:
    """The grandparents have decided more since their split."""
    repartition_topics(pair, 4)
    run_plan(pair.plan())
    pair.send(*round_commands(2))
    run_plan(pair.plan())
    eventually(lambda: pair.is_stable("outcomes"))
    build(pair, 8, "new")
    repartition_topics(pair, 8)
    places = {one: pair.shard_path("new", one).stat().st_ino for one in range(8)}
    run_plan(pair.plan(machine="new"))
    assert {one: pair.shard_path("new", one).stat().st_ino for one in range(8)} == places
    check_decided_once(pair, 0, 2, machine="new")


def test_number_must_fit(pair: TopicHarness) -> None:
    with pytest.raises(UsageError, match="3 is not a multiple"):
        build(pair, 3, "new")


def test_children_are_warm_before_the_split(pair: TopicHarness, tmp_path: Path) -> None:
    """In an ordinary takeover too, visible records are folded once, while the target waits for its parent."""
    repartition_topics(pair, 4)
    plan, child = pair.plan(once=False), Partition("counter", 3)
    (tmp_path / "shard").mkdir()
    with closing(LmdbStore(tmp_path / "shard", plan.deciding.window)) as store:
        log, holding = _Watched(pair.connection, pair.topics, 3), partial(plan.read_assigned_keys, child)
        for starts in ([0], []):
            _READ.clear()
            fold_unfenced(log, pair.aggregate, store, plan.deciding.window, 2**20, Measures(), "", holding)
            assert [start for number, kind, start in _READ if (number, kind) == (1, "events")] == starts
        assert {name for name, _ in store.items()} == {one for one in SUBJECTS if pair.partition_of(one) == 3}
