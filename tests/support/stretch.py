"""A topic of its own for a test, written to with and without transactions."""

from collections.abc import Iterable

from confluent_kafka import Producer

from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.readers import bounds
from tests.support.waiting import eventually


class Stretch:
    """One partition; more of them are there for others to write to."""

    def __init__(self, connection: Cluster, topic: str, partitions: int = 1) -> None:
        self.connection, self.topic = connection, topic
        with Admin(connection) as admin:
            admin.create(
                topic, partitions, 1, {"retention.ms": "-1"}
            )  # records of 1970 must outlive the broker's check

    def write(self, values: Iterable[bytes], timestamp: int = 0) -> None:
        """Records outside of any transaction."""
        client = producer(self.connection, enable_idempotence=False)
        for value in values:
            client.produce(self.topic, value, b"k", 0, timestamp=timestamp, headers=[("h", b"v")])
        assert client.flush(10) == 0

    def begin(self, values: Iterable[bytes]) -> Producer:
        """Records in a transaction that is left open."""
        return begin(self.connection, self.topic, values)

    def commit(self, values: Iterable[bytes]) -> None:
        self.begin(values).commit_transaction(10)
        settled(self.connection, self.topic)

    def abort(self, values: Iterable[bytes]) -> None:
        abort(self.connection, self.topic, values)


def abort(connection: Cluster, topic: str, values: Iterable[bytes]) -> None:
    """Records in a transaction that is given up, and its marker, in partition 0 of any topic."""
    begin(connection, topic, values).abort_transaction(10)
    settled(connection, topic)


def begin(connection: Cluster, topic: str, values: Iterable[bytes]) -> Producer:
    """Records in a transaction that is left open, in partition 0 of any topic."""
    client = producer(connection, transactional_id=f"{topic}.writer")
    client.init_transactions(10)
    client.begin_transaction()
    for value in values:
        client.produce(topic, value, b"k", 0)
    assert client.flush(10) == 0
    return client


def settled(connection: Cluster, topic: str) -> None:
    """Wait for the marker of a transaction that has just ended in partition 0.

    The coordinator answers as soon as it has noted the end, and writes the markers after that.
    """
    eventually(lambda: bounds(connection, topic, [0]) == bounds(connection, topic, [0], "read_uncommitted"))
