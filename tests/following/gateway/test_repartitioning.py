"""A gateway follows a repartitioning: states, lists and counts agree with the log at every stage."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.following.gateway.server import open_followers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.registry import load
from tests.support import ROOT
from tests.support.repartitioned_log import COUNTER_IDS, GrowingCounters
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def log(connection: Connection, prefix: str) -> GrowingCounters:
    return GrowingCounters(connection, Topics("counter", prefix), 2)


@contextmanager
def running_follower(log: GrowingCounters, folder: Path) -> Iterator[AggregateFollower]:
    aggregates = {"counter": load("counter", "aggregates", ROOT)}
    with ExitStack() as stack:
        followers = open_followers(
            log.connection, aggregates, log.topics.prefix, "murmur2", folder, print, stack
        )
        followers["counter"].start()
        yield followers["counter"]


def agrees_with_log(log: GrowingCounters, follower: AggregateFollower) -> bool:
    """True once a list, reads of each aggregate, and the total count agree with the log."""
    assert follower.error is None, follower.error
    for partition in range(log.lineage.counts[-1]):
        follower.check_for_partition(partition)
    listed = {name: saved.version for name, saved in follower.list_aggregates("", "", len(COUNTER_IDS) + 1)}
    read = {name: saved.version for name in COUNTER_IDS if (saved := follower.state_of(name)) is not None}
    return listed == read == dict(log.versions) and follower.aggregate_count() == len(log.versions)


def test_follower_continues_over_repartitionings(log: GrowingCounters, tmp_path: Path) -> None:
    """The gateway follows from 2 to 4 and to 8 partitions. It is restarted during the second repartitioning."""
    log.increment(*COUNTER_IDS)
    with running_follower(log, tmp_path) as follower:
        eventually(lambda: agrees_with_log(log, follower))
        log.request_repartitioning(4)
        log.increment(*COUNTER_IDS[:30])
        eventually(lambda: agrees_with_log(log, follower))
        log.split(0)
        log.increment(*COUNTER_IDS)
        eventually(lambda: agrees_with_log(log, follower))
        assert follower.partition_count == 4
    log.split()
    log.request_repartitioning(8)
    log.split(1)
    log.increment(*COUNTER_IDS)
    with running_follower(log, tmp_path) as restarted:
        eventually(lambda: agrees_with_log(log, restarted))
        log.split()
        log.increment(*COUNTER_IDS)
        eventually(lambda: agrees_with_log(log, restarted))


def test_lost_replica_of_a_child_inherits_again(log: GrowingCounters, tmp_path: Path) -> None:
    log.increment(*COUNTER_IDS)
    log.request_repartitioning(4)
    log.split()
    log.increment(*COUNTER_IDS)
    with running_follower(log, tmp_path / "a") as follower:
        eventually(lambda: agrees_with_log(log, follower))
        positions = {partition: replica.position for partition, replica in follower.replicas.items()}
        key_space = follower.key_space.current
        assert key_space.is_ready(2, positions) and not key_space.is_ready(2, {**positions, 0: 1})
    shutil.rmtree(next((tmp_path / "a").rglob("2")))
    with running_follower(log, tmp_path / "a") as restarted:
        eventually(lambda: agrees_with_log(log, restarted))
