"""A fence ends the open transaction of the previous writer, or raises an error."""

from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import bounds
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.kafka.writer import FencedWriter
from tests.support.absent_broker import unused_address
from tests.support.transactional_topic import TransactionalTopic

pytestmark = pytest.mark.kafka


class CountingProducer:
    """A producer that counts calls of `init_transactions`, and notes at which count it looked up leaders."""

    def __init__(self, client: Producer) -> None:
        self._client, self.init_calls = client, 0
        self.lookups = list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def init_transactions(self, timeout: float) -> None:
        self.init_calls += 1
        self._client.init_transactions(timeout)

    def list_topics(self, topic: str, timeout: float) -> None:
        self.lookups.append(self.init_calls)
        self._client.list_topics(topic, timeout)


@pytest.mark.covers("all-or-none")
def test_open_transactions_end_at_the_fence(connection: Connection, prefix: str) -> None:
    topics = Topics("bank", prefix)
    events = TransactionalTopic(connection, topics.events).topic
    previous_producer = producer(connection, transactional_id=topics.transactional_id(0))
    previous_producer.init_transactions(10)
    previous_producer.begin_transaction()
    previous_producer.produce(events, b"one", partition=0)
    assert previous_producer.flush(10) == 0
    writer = FencedWriter(PartitionLog(connection, topics, 0), 1_000_000)
    counting_producer = writer._producer = CountingProducer(writer._producer)  # type: ignore[assignment]
    writer.fence()
    assert counting_producer.init_calls > 1  # librdkafka itself retries half a second later
    assert counting_producer.lookups == [
        0,
        0,
        counting_producer.init_calls,
    ]  # a topic may have got another leader
    start, end = bounds(connection, events, [0])[0]
    assert (start, end) == (0, bounds(connection, events, [0], "read_uncommitted")[0][1])  # none is open
    with pytest.raises(KafkaException):
        previous_producer.commit_transaction(10)


def test_a_fence_without_broker_ends(prefix: str) -> None:
    writer = FencedWriter(
        PartitionLog(Connection(unused_address()), Topics("bank", prefix), 0), 1_000_000, 1.5
    )
    with pytest.raises(KafkaException):
        writer.fence()


def test_too_low_broker_timeout_is_named(connection: Connection, prefix: str) -> None:
    """The broker allows 15 minutes by default."""
    topics = Topics("counter", prefix)
    TransactionalTopic(connection, topics.events)
    writer = FencedWriter(PartitionLog(connection, topics, 0), 1_000_000, timeout=1000.0)
    with pytest.raises(ConfigurationError, match=r"timeout\.ms is lower, .* of 1000000 ms"):
        writer.fence()
    with Admin(connection) as admin:
        name = "transaction.max.timeout.ms"
        assert admin.broker_settings([name]) == {1: {name: "900000"}}
