"""After 32,767 epochs of a transactional id the broker assigns another producer id. Fences must still work."""

import signal

import pytest
from confluent_kafka import KafkaException

from cqrs_cli.core.context import Decisions
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.writer import FencedWriter
from tests.support.batch_writing import commit_batch
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan
from tests.support.raw_requests import Producer, RawClient, raw_client
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]


def use_up_epochs(broker: RawClient, id: str) -> tuple[Producer, Producer]:
    """Fence until the producer id changes. Return the last producer of the old id and the first of the new id."""
    last_producer = broker.init_producer(id)
    while (next_producer := broker.init_producer(id)).id == last_producer.id:
        last_producer = next_producer
    return last_producer, next_producer


@pytest.mark.covers("one-owner")
def test_fences_survive_an_epoch_rollover(counters: TopicHarness) -> None:
    owner = OwnerProcess(counters.plan(once=False))
    counters.send(*increment_commands(5))
    eventually(lambda: len(counters.outcomes()) == 5)
    owner.signal(signal.SIGSTOP)
    old_writer = FencedWriter(PartitionLog(counters.connection, counters.topics, 0), 1_000_000)
    old_writer.fence()
    with raw_client(counters.connection) as broker:
        last_producer, first_producer = use_up_epochs(broker, counters.topics.transactional_id(0))
    assert (last_producer.epoch, first_producer.epoch) == (32_766, 0)
    group = consumer(counters.connection, group=counters.topics.group)
    with pytest.raises(KafkaException):
        commit_batch(old_writer, [Decisions(0, [(b"late", b"k", 7)])], group, 99, "late")
    group.close()
    owner.signal(signal.SIGCONT)
    counters.send(*increment_commands(5, first=5))
    eventually(lambda: len(counters.outcomes()) == 10)
    run_plan(counters.plan())
    assert isinstance(owner.error(), TakenOverError)
    counters.check()
