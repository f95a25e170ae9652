"""Reads the keys topic and the events of an aggregate, with clients that are opened when they are first needed."""

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import Isolation, bulk_consumer, to_error
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topics import Topics


class KafkaKeysLog:
    """Reads the keys topic and the events topic of an aggregate. The methods raise `UnavailableError` if no broker
    answers, or if a transaction stays open.
    """

    def __init__(self, connection: Cluster, topics: Topics) -> None:
        self._connection, self._events = connection, topics.events
        self.topic = topics.keys
        self._clients: dict[Isolation, Consumer] = {}

    def partition_count(self) -> int:
        """Return the partition count of the keys topic; raises `ConfigurationError` if the topic does not exist."""
        count = readers.partition_count_with(self._connection, self._client("read_committed"), self.topic)
        if not count:
            raise ConfigurationError(
                f"topic {self.topic} does not exist, but events have fields that are encrypted with its keys",
                "restore it from a backup: cqrs init cannot create these keys again",
            )
        return count

    def end_of_events(self, partition: int) -> int:
        """Return the last stable offset of a partition of the events."""
        return self._watermarks("read_committed", self._events, partition)[1]

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return (log start, high watermark) of a partition of the keys topic."""
        return self._watermarks("read_uncommitted", self.topic, partition)

    def read(self, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        """Yield the committed records of the keys topic from offset `start` to `end`, in batches."""
        if start < end:
            client = self._client("read_committed")
            yield from readers.read_with(self._connection, client, self.topic, partition, start, end)

    def event_partitions(self) -> int:
        """Return the current partition count of the events topic."""
        return readers.partition_count(self._connection, self._events)

    def events_from(self, partition: int, start: int) -> Iterator[list[Record]]:
        """Yield the committed events from offset `start` to the high watermark, in batches."""
        log_start, end = self._watermarks("read_uncommitted", self._events, partition)
        return readers.read(self._connection, self._events, partition, max(log_start, start), end)

    def close(self) -> None:
        """Close the clients. Idempotent."""
        while self._clients:
            self._clients.popitem()[1].close()

    def _watermarks(self, isolation: Isolation, topic: str, partition: int) -> tuple[int, int]:
        try:
            return readers.watermarks(self._client(isolation), topic, partition)
        except KafkaException as error:
            raise to_error(self._connection, error, RequiredAcl("Read", "topic", topic)) from error

    def _client(self, isolation: Isolation) -> Consumer:
        if isolation not in self._clients:
            self._clients[isolation] = bulk_consumer(self._connection, isolation=isolation)
        return self._clients[isolation]
