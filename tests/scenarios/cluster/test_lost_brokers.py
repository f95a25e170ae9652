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
from tests.scenarios.cluster.brokers import EVERYTHING, NODES, PATIENCE, REPLICATION, Brokers
from tests.scenarios.cluster.service import Service
from tests.support.project import counter_increments, repartitioning_stages
from tests.support.sampling import sample_cases
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.spark, pytest.mark.slow]

#: The run prints this text while it waits for a broker.
SILENCE = "no answer from Kafka"

#: Exit codes of `cqrs repartition`: done, or interrupted by a lost broker. Repeating the command continues.
DONE_OR_UNAVAILABLE = {0, 4}

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
    eventually(brokers.whole, PATIENCE)
    until = time.monotonic() + PATIENCE
    while True:
        service.catches_up()
        try:
            return service.harness.check()
        except (AssertionError, UnavailableError):
            if time.monotonic() > until:
                raise


def test_everything_has_three_replicas(brokers: Brokers, service: Service) -> None:
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
    with service.flowing():
        victim = role(brokers, service)
        brokers.kill(victim)
        service.goes_on()
        brokers.start(victim)
        eventually(brokers.whole, PATIENCE)
        service.goes_on()
    check(brokers, service)


@pytest.mark.nightly
@pytest.mark.covers("one-outcome")
def test_it_stalls_without_two_brokers(brokers: Brokers, service: Service) -> None:
    topic = service.harness.topics.outcomes
    with service.flowing():
        survivor = brokers.leader(topic, 0)
        others = set(NODES) - {survivor}
        brokers.kill(*others)
        outcomes = brokers.ends_on(survivor, topic)
        complaints = service.said().count(SILENCE)
        eventually(lambda: service.serves() and service.said().count(SILENCE) > complaints, PATIENCE)
        assert brokers.ends_on(survivor, topic) == outcomes
        brokers.start(*others)
        service.goes_on()
    check(brokers, service)


@pytest.mark.nightly
@pytest.mark.covers("one-outcome")
def test_a_paused_broker_wakes_up_replaced(brokers: Brokers, service: Service) -> None:
    with service.flowing():
        sleeper = leader(brokers, service)
        brokers.pause(sleeper)
        service.goes_on()
        brokers.unpause(sleeper)
        service.goes_on()
    check(brokers, service)


@pytest.mark.nightly
@pytest.mark.covers("one-outcome")
def test_an_isolated_broker_joins_again(brokers: Brokers, service: Service) -> None:
    with service.flowing():
        lonely = leader(brokers, service)
        brokers.cut_off(lonely, *EVERYTHING)
        service.goes_on()
        brokers.rejoin(lonely, *EVERYTHING)
        service.goes_on()
    check(brokers, service)


@pytest.mark.nightly
def test_a_half_isolated_broker_only_delays(brokers: Brokers, service: Service) -> None:
    topic = service.harness.topics.commands
    with service.flowing():
        lonely = brokers.leader(topic, 0)
        other = min(set(NODES) - {lonely})
        brokers.cut_off(lonely, REPLICATION)
        eventually(lambda: brokers.leader(topic, 0, as_told_by=other) in set(NODES) - {lonely}, PATIENCE)
        assert service.serves()
        brokers.rejoin(lonely, REPLICATION)
        service.goes_on()
    check(brokers, service)


@pytest.mark.nightly
@pytest.mark.covers("growing")
def test_growth_ends_with_the_broker_back(brokers: Brokers, service: Service) -> None:
    project, growth = service.project, ("repartition", "counter", "--partitions", "4")
    project.cqrs("init", "counter", "--partitions", "2")
    project.send(counter_increments(20))
    project.cqrs("run", "counter", "--once")
    lonely = brokers.leader(f"{project.prefix}counter.commands", 0)
    brokers.cut_off(lonely, *EVERYTHING)
    with project.running(*growth) as growing:
        _, output = growing.communicate(timeout=PATIENCE)
    assert growing.returncode in DONE_OR_UNAVAILABLE, output
    brokers.rejoin(lonely, *EVERYTHING)
    eventually(brokers.whole, PATIENCE)
    project.cqrs(*growth)
    project.send(counter_increments(20))

    def has_split() -> bool:
        """Run once and return True if all partitions are split.

        A broker that has just come back may return the old number of partitions. Then the next run splits.
        """
        project.cqrs("run", "counter", "--once")
        return repartitioning_stages(project, "counter") == [None] * 4

    eventually(has_split, PATIENCE)
    assert "no violation" in project.cqrs("verify", "counter")


def test_verify_then_finds_nothing_wrong(service: Service) -> None:
    service.catches_up()
    service.project.cqrs("verify", "bank_account")
