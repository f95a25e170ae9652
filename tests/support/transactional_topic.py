"""A test's own topic, written to with and without transactions."""

from collections.abc import Iterable

from confluent_kafka import Producer

from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.readers import bounds
from tests.support.waiting import eventually


class TransactionalTopic:
    """Writes to partition 0 of a topic. Other writers may use further partitions."""

    def __init__(self, connection: Cluster, topic: str, partitions: int = 1) -> None:
        self.connection, self.topic = connection, topic
        with Admin(connection) as admin:
            admin.create(
                topic, partitions, 1, {"retention.ms": "-1"}
            )  # records of 1970 must survive the broker's retention check

    def write(self, values: Iterable[bytes], timestamp: int = 0) -> None:
        """Write records outside of transactions."""
        client = producer(self.connection, enable_idempotence=False)
        for value in values:
            client.produce(self.topic, value, b"k", 0, timestamp=timestamp, headers=[("h", b"v")])
        assert client.flush(10) == 0

    def begin(self, values: Iterable[bytes]) -> Producer:
        """Write records in a transaction that is left open."""
        return begin_transaction(self.connection, self.topic, values)

    def commit(self, values: Iterable[bytes]) -> None:
        self.begin(values).commit_transaction(10)
        await_marker(self.connection, self.topic)

    def abort(self, values: Iterable[bytes]) -> None:
        abort_transaction(self.connection, self.topic, values)


def abort_transaction(connection: Cluster, topic: str, values: Iterable[bytes]) -> None:
    """Write records in a transaction and abort it, in partition 0 of any topic. Waits for the marker."""
    begin_transaction(connection, topic, values).abort_transaction(10)
    await_marker(connection, topic)


def begin_transaction(connection: Cluster, topic: str, values: Iterable[bytes]) -> Producer:
    """Write records in a transaction that is left open, in partition 0 of any topic."""
    client = producer(connection, transactional_id=f"{topic}.writer")
    client.init_transactions(10)
    client.begin_transaction()
    for value in values:
        client.produce(topic, value, b"k", 0)
    assert client.flush(10) == 0
    return client


def await_marker(connection: Cluster, topic: str) -> None:
    """Wait for the marker of a transaction that has just ended in partition 0.

    The coordinator responds as soon as it has recorded the end, and writes the markers later.
    """
    eventually(lambda: bounds(connection, topic, [0]) == bounds(connection, topic, [0], "read_uncommitted"))
