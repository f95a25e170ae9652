"""Facts of Kafka and librdkafka that the model of one transaction per worker assumes (tests/model/sharing)."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from cqrs_cli.kafka.clients import consumer, producer
from cqrs_cli.kafka.connection.connection import Connection
from tests.support.transactional_topic import TransactionalTopic

pytestmark = pytest.mark.kafka


class SharedProducers:
    """Producers that commit offsets of the partitions of one topic, and the group that has these offsets."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection, self.topic = connection, topic
        self.group = consumer(connection, group=topic)

    def start(self, id: str) -> Producer:
        """Return a producer that has called `init_transactions` with this id."""
        started = producer(self._connection, transactional_id=f"{self.topic}.{id}", retry_backoff_ms=1)
        started.init_transactions(10)
        return started

    def open(self, client: Producer, *partitions: int, metadata: str = "") -> None:
        """Begin a transaction with an offset of each partition; each offset has this metadata."""
        client.begin_transaction()
        offsets = [TopicPartition(self.topic, partition, 7, metadata) for partition in partitions]
        client.send_offsets_to_transaction(offsets, self.group.consumer_group_metadata(), 10)

    def committed_metadata(self, *partitions: int) -> list[str | None]:
        """Return the metadata of the committed offsets, in one response."""
        asked = [TopicPartition(self.topic, partition) for partition in partitions]
        return [position.metadata for position in self.group.committed(asked, timeout=10)]


@pytest.fixture
def shared(connection: Connection, prefix: str) -> SharedProducers:
    return SharedProducers(connection, TransactionalTopic(connection, f"{prefix}shared", 4).topic)


def error_code(call: Callable[..., object], *arguments: object) -> int:
    """Return the code of the error that the call raises."""
    with pytest.raises(KafkaException) as error:
        call(*arguments)
    return int(error.value.args[0].code())


def test_one_transaction_commits_several_partitions(shared: SharedProducers) -> None:
    worker = shared.start("A")
    shared.open(worker, 0, 1, metadata="A")
    worker.produce(shared.topic, b"one", partition=2)
    worker.commit_transaction(10)
    assert shared.committed_metadata(0, 1) == ["A", "A"]


def test_fence_aborts_the_offsets_of_all_partitions(shared: SharedProducers) -> None:
    worker = shared.start("A")
    shared.open(worker, 0, 1, metadata="A")
    shared.start("A")
    assert error_code(worker.commit_transaction, 10) == KafkaError._FENCED
    assert shared.committed_metadata(0, 1) == [None, None]


def test_fencing_producer_names_another_writer(shared: SharedProducers) -> None:
    """The worker that takes over commits its claims with the producer that fenced A, then writes with its own id B."""
    worker, taker = shared.start("A"), shared.start("B")
    fencing_producer = shared.start("A")
    shared.open(fencing_producer, 0, 1, metadata="B")
    fencing_producer.commit_transaction(10)
    assert shared.committed_metadata(0, 1) == ["B", "B"]
    shared.open(taker, 0, metadata="B, later")
    taker.commit_transaction(10)
    assert shared.committed_metadata(0, 1) == ["B, later", "B"]
    assert error_code(shared.open, worker, 2) == KafkaError._FENCED


def test_restart_prevents_a_claim_in_progress(shared: SharedProducers) -> None:
    """A worker that calls `init_transactions` again fences the producer that fenced the worker."""
    fencing_producer = shared.start("A")
    shared.open(fencing_producer, 0, metadata="B")
    shared.start("A")
    assert error_code(fencing_producer.commit_transaction, 10) == KafkaError._FENCED
    assert shared.committed_metadata(0) == [None]


def test_two_groups_share_a_transaction(shared: SharedProducers, connection: Connection) -> None:
    worker, other_group = shared.start("A"), consumer(connection, group=f"{shared.topic}.other")
    shared.open(worker, 0, metadata="A")
    offsets = [TopicPartition(shared.topic, 1, 7, "other")]
    worker.send_offsets_to_transaction(offsets, other_group.consumer_group_metadata(), 10)
    worker.commit_transaction(10)
    assert shared.committed_metadata(0, 1) == ["A", None]
    assert other_group.committed(offsets, timeout=10)[0].metadata == "other"
    other_group.close()
