"""Reads where a process stands in each partition that it hears."""

from collections.abc import Iterable
from contextlib import ExitStack, closing
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.following.processes.plan import Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.following.processes.positions import POSITIONS_PARTITION, positions_in
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics


class HeardPartition(NamedTuple):
    """Events are in the log from `start` to `end`; `position` is None before the process has begun."""

    subscription: Subscription
    start: int
    end: int
    position: ProcessPosition | None


class HeardReader:
    """Reads a process's partitions, once or again and again over the same connections: then only new positions."""

    def __init__(self, connection: Connection, topics: ProcessTopics, aggregates: Iterable[str]) -> None:
        """Raises `ConfigurationError` if a topic does not exist."""
        self._connection, self._topics = connection, topics
        readers.partitions(connection, topics.positions)
        self._sources = [
            EventPartition(name, topic, number)
            for name in sorted(aggregates)
            for topic in (Topics(name, topics.prefix).events,)
            for number in range(readers.partitions(connection, topic))
        ]
        self._recorded: dict[bytes, ProcessPosition] = {}
        self._read_to = 0  # of the positions
        self._open: ExitStack | None = None
        self._committed: Consumer
        self._any: Consumer

    def _connect(self) -> None:
        if self._open is None:
            self._open = ExitStack()
            self._committed = clients.consumer(self._connection, fetch_wait_max_ms=10)
            self._any = clients.consumer(self._connection, isolation="read_uncommitted")
            self._open.enter_context(closing(self._committed))
            self._open.enter_context(closing(self._any))

    def close(self) -> None:
        """Give the connections back; another look makes new ones."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def look(self) -> list[HeardPartition]:
        """Every partition now; raises `UnavailableError` if the broker does not answer."""
        self._connect()
        topic, found = self._topics.positions, list[HeardPartition]()
        try:
            self._read_positions(topic)
            for source in self._sources:
                topic = source.topic
                start, end = readers.watermarks(self._any, topic, source.partition)
                position = self._recorded.get(position_key(source))
                found.append(HeardPartition(Subscription(self._topics.process, source), start, end, position))
        except (KafkaException, readers.MissingError, readers.StalledError) as error:
            self.close()  # a client that met a broker alone may believe it for minutes
            if isinstance(error, KafkaException):
                raise clients.failed(self._connection, error, RequiredAcl("Read", "topic", topic)) from error
            raise clients.unreachable(self._connection, error.message) from error
        return found

    def _read_positions(self, topic: str) -> None:
        """Take in the positions that were recorded since the look before."""
        start, end = readers.watermarks(self._committed, topic, POSITIONS_PARTITION)
        if end < self._read_to:  # the topic was made again
            self._recorded, self._read_to = {}, start
        begin = max(start, self._read_to)
        for records in readers.read_with(
            self._connection, self._committed, topic, POSITIONS_PARTITION, begin, end
        ):
            self._recorded |= positions_in(topic, records)
        self._committed.unassign()
        self._read_to = end


def heard_partitions(
    connection: Connection, topics: ProcessTopics, aggregates: Iterable[str]
) -> list[HeardPartition]:
    """Every partition that a process hears, at one look."""
    with closing(HeardReader(connection, topics, aggregates)) as reader:
        return reader.look()
