"""A client with an outdated partition count waits for the outcome in the partition to which its key has moved."""

from pathlib import Path

import pytest

import cqrs_cli as cqrs
from aggregates.counter import Increment
from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.outcomes import OutcomeWaiter
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.send import send_and_wait
from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.growing import SUBJECTS, counters, round_of
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import quietly, running
from tests.support.repartitioning import grow, reasons

pytestmark = pytest.mark.kafka


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


def composed(round: int) -> list[ReadyCommand]:
    return [
        ReadyCommand(f"{one}.{round}", "counter", one, "counter.Increment", sent.value or b"")
        for one, sent in zip(SUBJECTS, round_of(round), strict=True)
    ]


def grown(harness: TopicHarness) -> None:
    grow(harness, 4)
    quietly(harness.plan())


def test_client_waits_for_the_final_outcome(connection: Connection, prefix: str, pair: TopicHarness) -> None:
    """The client also gets the outcome of a repeated command that was decided before the repartitioning."""
    with cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix) as client:
        with running(pair.plan(once=False)):
            assert all(client.send(one, Increment(), id=f"{one}-0").wait().ok for one in SUBJECTS)
        grown(pair)
        with running(pair.plan(once=False)):
            again = [client.send(one, Increment(), id=f"{one}-0") for one in SUBJECTS]
            assert {one.wait().status for one in again} == {"duplicate"}
            assert {client.recorded(one.wait())[0] for one in again} == {0, 1}
            first = [client.send(one, Increment()) for one in SUBJECTS]
            found = [one.wait() for one in first]
        assert [one.version for one in found] == [2] * len(SUBJECTS)
        assert [one.partition for one in found] == [pair.home(one) for one in SUBJECTS]


def test_waiter_hears_of_a_growth_once(connection: Connection, pair: TopicHarness) -> None:
    """Commands on their way stay in order. A command sent when none is on its way goes straight to its partition."""
    topics = {"counter": pair.topics}
    with CommandProducer(connection, "murmur2") as producer, OutcomeWaiter(connection, producer) as waiter:
        assert producer.partition_count(pair.topics.commands) == 2
        grown(pair)
        with running(pair.plan(once=False)):
            for number in range(3):
                arrived = send_and_wait(producer, waiter, topics, composed(number), 30)
                outcomes = [one for some in arrived for one in some]
                assert [one.envelope.data.status for one in outcomes] == ["accepted"] * len(SUBJECTS)
                assert sorted(one.envelope.subject or "" for one in outcomes) == sorted(SUBJECTS)
    moved = sum(reasons(pair, one)["MOVED"] for one in (0, 1))
    assert moved == len([one for one in SUBJECTS if pair.home(one) > 1])


def test_waiter_hears_of_growth_upon_growth(connection: Connection, pair: TopicHarness) -> None:
    """The second repartitioning comes between the first moved command and the next sent command."""
    topics = {"counter": pair.topics}
    with CommandProducer(connection, "murmur2") as producer, OutcomeWaiter(connection, producer) as waiter:
        assert producer.partition_count(pair.topics.commands) == 2
        grown(pair)
        for number in range(2):
            with running(pair.plan(once=False)):
                arrived = send_and_wait(producer, waiter, topics, composed(number), 30)
                assert sum(map(len, arrived)) == len(SUBJECTS)
            grow(pair, pair.partitions * 2)
    assert producer.partition_count(pair.topics.commands) == 8
