"""The broker dies and comes back: the owner continues without help, and each command is decided once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.writer import FencedWriter
from tests.support.brokers import Broker, broker
from tests.support.commands import mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def killable_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may kill; no other test uses it."""
    with broker(tmp_path_factory.mktemp("mortal")) as running_broker:
        yield running_broker


@pytest.fixture
def connection(killable_broker: Broker) -> Connection:
    """The connection to the broker that may be killed. `single_bank` is on this broker."""
    return killable_broker.connection


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize(
    "failpoint",
    [
        pytest.param("claim.before:1", marks=pytest.mark.nightly),
        pytest.param("position.after:1", marks=pytest.mark.nightly),
        pytest.param("produce.first:4", marks=pytest.mark.nightly),
        pytest.param("offsets.after:4", marks=pytest.mark.nightly),
        pytest.param("flush.after:4", marks=pytest.mark.nightly),
        "commit.sent:4",
        pytest.param("commit.after:4", marks=pytest.mark.nightly),
    ],
)
def test_broker_killed_mid_transaction_costs_nothing(
    killable_broker: Broker, single_bank: TopicHarness, tmp_path: Path, failpoint: str
) -> None:
    commands = list(mixed_commands(800))
    single_bank.send(*commands[:200])
    run_plan(single_bank.plan())
    single_bank.send(*commands[200:])
    marker = tmp_path / "reached"
    plan = single_bank.plan()
    owner = OwnerProcess(plan, f"{failpoint}:wait@{marker}", batch_limit=50, apply_every=150)
    eventually(marker.exists, every=0.001)  # the markers are written within milliseconds
    killable_broker.kill()
    marker.unlink()
    killable_broker.start()
    if owner.exited_by_watchdog():  # confluentinc/librdkafka#5456; the driver then submits the task again
        run_plan(replace(plan, submission=1))
    else:
        assert owner.error() is None
    single_bank.check()


@pytest.mark.covers("one-outcome")
def test_writer_waits_for_its_unresolved_transaction(
    killable_broker: Broker, single_bank: TopicHarness
) -> None:
    """A writer begins no transaction while its previous transaction is unresolved.

    The previous transaction may have ended on some partitions only. Aborting the next transaction would also abort the
    previous one on the other partitions.
    """
    log = PartitionLog(killable_broker.connection, single_bank.topics, 0)
    group = consumer(killable_broker.connection, group=log.topics.group)
    first_writer, second_writer = FencedWriter(log, 1_000_000), FencedWriter(log, 1_000_000)
    first_writer.fence()
    first_writer.commit_position(group, 1, "before")
    eventually(
        lambda: log.committed_position() == GroupCommit(1, "before")
    )  # wait until all markers are written
    killable_broker.kill()
    killable_broker.start()
    with pytest.raises(KafkaException, match=r"Connect to|brokers are down"):
        first_writer.commit_position(group, 2, "during")
    second_writer.fence()
    assert log.committed_position() == GroupCommit(1, "before")
    second_writer.commit_position(group, 2, "after")
    assert log.committed_position_by(group) == GroupCommit(2, "after")  # waits for the marker
    group.close()


@pytest.mark.covers("one-outcome")
def test_broker_killed_while_idle_is_awaited(killable_broker: Broker, single_bank: TopicHarness) -> None:
    commands = list(mixed_commands(400))
    single_bank.send(*commands[:200])
    with running_owners(single_bank.plan(once=False)) as owner:
        eventually(lambda: len(single_bank.outcomes()) == 200)
        killable_broker.kill()
        killable_broker.start()
        single_bank.send(*commands[200:])
        eventually(lambda: len(single_bank.outcomes()) == 400, within=60)
        assert not owner.has_ended()
    single_bank.check()
