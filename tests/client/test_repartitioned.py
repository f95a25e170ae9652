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
from tests.deciding.repartitioned_counters import SUBJECTS, counters, round_commands
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.repartitioning import count_reasons, repartition_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


def ready_commands(number: int) -> list[ReadyCommand]:
    return [
        ReadyCommand(f"{subject}.{number}", "counter", subject, "counter.Increment", record.value or b"")
        for subject, record in zip(SUBJECTS, round_commands(number), strict=True)
    ]


def repartition(harness: TopicHarness) -> None:
    repartition_topics(harness, 4)
    run_plan(harness.plan())


def test_client_waits_for_the_final_outcome(
    connection: Connection, prefix: str, harness: TopicHarness
) -> None:
    """The client also gets the outcome of a repeated command that was decided before the repartitioning."""
    with cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix) as client:
        with running_owners(harness.plan(once=False)):
            assert all(client.send(subject, Increment(), id=f"{subject}-0").wait().ok for subject in SUBJECTS)
        repartition(harness)
        with running_owners(harness.plan(once=False)):
            repeated_commands = [client.send(subject, Increment(), id=f"{subject}-0") for subject in SUBJECTS]
            assert {command.wait().status for command in repeated_commands} == {"duplicate"}
            assert {client.recorded(command.wait())[0] for command in repeated_commands} == {0, 1}
            commands = [client.send(subject, Increment()) for subject in SUBJECTS]
            outcomes = [command.wait() for command in commands]
        assert [outcome.version for outcome in outcomes] == [2] * len(SUBJECTS)
        assert [outcome.partition for outcome in outcomes] == [
            harness.partition_of(subject) for subject in SUBJECTS
        ]


def test_waiter_learns_of_a_repartitioning_once(connection: Connection, harness: TopicHarness) -> None:
    """Commands in flight stay in order. Without commands in flight, a command goes to the new partition at once."""
    topics = {"counter": harness.topics}
    with CommandProducer(connection, "murmur2") as producer, OutcomeWaiter(connection, producer) as waiter:
        assert producer.partition_count(harness.topics.commands) == 2
        repartition(harness)
        with running_owners(harness.plan(once=False)):
            for number in range(3):
                batches = send_and_wait(producer, waiter, topics, ready_commands(number), 30)
                outcomes = [outcome for batch in batches for outcome in batch]
                assert [outcome.envelope.data.status for outcome in outcomes] == ["accepted"] * len(SUBJECTS)
                assert sorted(outcome.envelope.subject or "" for outcome in outcomes) == sorted(SUBJECTS)
    moved_count = sum(count_reasons(harness, partition)["MOVED"] for partition in (0, 1))
    assert moved_count == len([subject for subject in SUBJECTS if harness.partition_of(subject) > 1])


def test_waiter_learns_of_two_repartitionings(connection: Connection, harness: TopicHarness) -> None:
    """The second repartitioning comes between the first moved command and the next sent command."""
    topics = {"counter": harness.topics}
    with CommandProducer(connection, "murmur2") as producer, OutcomeWaiter(connection, producer) as waiter:
        assert producer.partition_count(harness.topics.commands) == 2
        repartition(harness)
        for number in range(2):
            with running_owners(harness.plan(once=False)):
                batches = send_and_wait(producer, waiter, topics, ready_commands(number), 30)
                assert sum(map(len, batches)) == len(SUBJECTS)
            repartition_topics(harness, harness.partitions * 2)
    assert producer.partition_count(harness.topics.commands) == 8
