"""Brokers are killed, paused and cut off under a run: the run continues, and decides each command once, in order.

All tests with a cluster are in this file, because one process runs one file. Two clusters at once would collide: both
would have the compose project name that CI sets.
"""

import time
from collections.abc import Callable

import pytest

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.topics.topics import KINDS
from tests.scenarios.cluster.brokers import ALL_NETWORKS, NODES, RECOVERY_TIMEOUT, REPLICATION, Brokers
from tests.scenarios.cluster.service import Service
from tests.support.project import counter_increments, repartitioning_stages
from tests.support.sampling import sample_cases
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.spark, pytest.mark.slow]

#: The run prints this text while it waits for a broker.
NO_ANSWER = "no answer from Kafka"

#: Exit codes of `cqrs repartition`: done, or interrupted by a lost broker. Repeating the command continues.
EXPECTED_EXIT_CODES = {0, 4}

Role = Callable[[Brokers, Service], int]


def leader(brokers: Brokers, service: Service) -> int:
    """Return the leader of partition 0 of the events topic."""
    return brokers.leader(service.harness.topics.events, 0)


def transaction_coordinator(brokers: Brokers, service: Service) -> int:
    """Return the transaction coordinator of partition 0's writer."""
    return brokers.transaction_coordinator(service.harness.topics.transactional_id(0))


def group_coordinator(brokers: Brokers, service: Service) -> int:
    """Return the coordinator of the group's offsets, which contain the claims."""
    return brokers.group_coordinator(service.harness.topics.group)


def check(brokers: Brokers, service: Service) -> None:
    """Check that each command has exactly one outcome, and that events and shards are as after an undisturbed run."""
    eventually(brokers.all_in_sync, RECOVERY_TIMEOUT)
    deadline = time.monotonic() + RECOVERY_TIMEOUT
    while True:
        service.await_all_decided()
        try:
            return service.harness.check()
        except (AssertionError, UnavailableError):
            if time.monotonic() > deadline:
                raise


def test_all_topics_have_three_replicas(brokers: Brokers, service: Service) -> None:
    names = [service.harness.topics.name(kind) for kind in KINDS]
    with Admin(brokers.connection) as admin:
        descriptions = admin.describe([*names, "__consumer_offsets", "__transaction_state"])
    assert {(topic.replication, topic.configs["min.insync.replicas"]) for topic in descriptions.values()} == {
        (3, "2")
    }
    assert len(descriptions) == len(KINDS) + 2


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("role", sample_cases([leader, transaction_coordinator, group_coordinator], leader))
def test_a_killed_broker_comes_back(brokers: Brokers, service: Service, role: Role) -> None:
    """The leader or a coordinator is killed and comes back: the run continues, and decides each command once."""
    with service.sending_commands():
        node = role(brokers, service)
        brokers.kill(node)
        service.await_progress()
        brokers.start(node)
        eventually(brokers.all_in_sync, RECOVERY_TIMEOUT)
        service.await_progress()
    check(brokers, service)


@pytest.mark.nightly
@pytest.mark.covers("one-outcome")
def test_run_stalls_without_two_brokers(brokers: Brokers, service: Service) -> None:
    topic = service.harness.topics.outcomes
    with service.sending_commands():
        survivor = brokers.leader(topic, 0)
        lost_nodes = set(NODES) - {survivor}
        brokers.kill(*lost_nodes)
        outcomes = brokers.end_offsets_on(survivor, topic)
        count_before = service.output().count(NO_ANSWER)
        eventually(
            lambda: service.is_running() and service.output().count(NO_ANSWER) > count_before,
            RECOVERY_TIMEOUT,
        )
        assert brokers.end_offsets_on(survivor, topic) == outcomes
        brokers.start(*lost_nodes)
        service.await_progress()
    check(brokers, service)


@pytest.mark.nightly
@pytest.mark.covers("one-outcome")
def test_run_continues_after_a_paused_broker(brokers: Brokers, service: Service) -> None:
    with service.sending_commands():
        paused_node = leader(brokers, service)
        brokers.pause(paused_node)
        service.await_progress()
        brokers.unpause(paused_node)
        service.await_progress()
    check(brokers, service)


@pytest.mark.nightly
@pytest.mark.covers("one-outcome")
def test_an_isolated_broker_joins_again(brokers: Brokers, service: Service) -> None:
    with service.sending_commands():
        isolated_node = leader(brokers, service)
        brokers.cut_off(isolated_node, *ALL_NETWORKS)
        service.await_progress()
        brokers.rejoin(isolated_node, *ALL_NETWORKS)
        service.await_progress()
    check(brokers, service)


@pytest.mark.nightly
def test_half_isolated_broker_only_delays_the_run(brokers: Brokers, service: Service) -> None:
    topic = service.harness.topics.commands
    with service.sending_commands():
        isolated_node = brokers.leader(topic, 0)
        other = min(set(NODES) - {isolated_node})
        brokers.cut_off(isolated_node, REPLICATION)
        eventually(
            lambda: brokers.leader(topic, 0, asked_node=other) in set(NODES) - {isolated_node},
            RECOVERY_TIMEOUT,
        )
        assert service.is_running()
        brokers.rejoin(isolated_node, REPLICATION)
        service.await_progress()
    check(brokers, service)


@pytest.mark.nightly
@pytest.mark.covers("growing")
def test_repartitioning_completes_after_broker_returns(brokers: Brokers, service: Service) -> None:
    project, repartition_command = service.project, ("repartition", "counter", "--partitions", "4")
    project.cqrs("init", "counter", "--partitions", "2")
    project.send(counter_increments(20))
    project.cqrs("run", "counter", "--once")
    isolated_node = brokers.leader(f"{project.prefix}counter.commands", 0)
    brokers.cut_off(isolated_node, *ALL_NETWORKS)
    with project.running(*repartition_command) as operator:
        _, output = operator.communicate(timeout=RECOVERY_TIMEOUT)
    assert operator.returncode in EXPECTED_EXIT_CODES, output
    brokers.rejoin(isolated_node, *ALL_NETWORKS)
    eventually(brokers.all_in_sync, RECOVERY_TIMEOUT)
    project.cqrs(*repartition_command)
    project.send(counter_increments(20))

    def has_split() -> bool:
        """Run once and return True if all partitions are split.

        A broker that has just come back may return the old number of partitions. Then the next run splits.
        """
        project.cqrs("run", "counter", "--once")
        return repartitioning_stages(project, "counter") == [None] * 4

    eventually(has_split, RECOVERY_TIMEOUT)
    assert "no violation" in project.cqrs("verify", "counter")


def test_verify_finds_no_violation(service: Service) -> None:
    service.await_all_decided()
    service.project.cqrs("verify", "bank_account")
