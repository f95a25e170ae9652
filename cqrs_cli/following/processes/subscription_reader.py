"""Reads the position of a process manager in each partition of its subscriptions."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.core.messages.record import Record
from cqrs_cli.following.processes.plan import Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.following.processes.positions import POSITIONS_PARTITION, decode_positions
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics


class SubscriptionState(NamedTuple):
    """The bounds of one events partition, and the position of a process manager in it."""

    subscription: Subscription
    start: int  # first offset of the log
    end: int  # high watermark of the log
    position: ProcessPosition | None  # None before the process manager has started


class SubscriptionReader:
    """Reads the states of a process manager's partitions. Repeated calls of `read_states` reuse the connections, and
    read only new position records.
    """

    def __init__(
        self,
        connection: Connection,
        topics: ProcessTopics,
        aggregates: Iterable[str],
        decode: Callable[[Iterable[Record]], dict[bytes, ProcessPosition]] | None = None,
    ) -> None:
        """`decode` returns `position_key` → last position in records; by default, an invalid record raises
        `ContradictionError`.

        Raises `ConfigurationError` if a topic does not exist.
        """
        self._decode = decode or partial(decode_positions, topics.positions_topic)
        self._connection, self._topics = connection, topics
        readers.partition_count(connection, topics.positions_topic)
        self._sources = [
            EventPartition(name, topic, number)
            for name in sorted(aggregates)
            for topic in (Topics(name, topics.prefix).events,)
            for number in range(readers.partition_count(connection, topic))
        ]
        self._positions: dict[bytes, ProcessPosition] = {}
        self._next_record = 0  # offset in the positions topic from which the next call reads
        self._connections: ExitStack | None = None
        self._committed_consumer: Consumer
        self._uncommitted_consumer: Consumer

    def _connect(self) -> None:
        if self._connections is None:
            self._connections = ExitStack()
            self._committed_consumer = clients.consumer(self._connection, fetch_wait_max_ms=10)
            self._uncommitted_consumer = clients.consumer(self._connection, isolation="read_uncommitted")
            self._connections.enter_context(closing(self._committed_consumer))
            self._connections.enter_context(closing(self._uncommitted_consumer))

    def close(self) -> None:
        """Close the connections. The next call of `read_states` opens new connections."""
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    def read_states(self) -> list[SubscriptionState]:
        """Return the current state of every partition; raises `UnavailableError` if the broker does not respond."""
        self._connect()
        topic, states = self._topics.positions_topic, list[SubscriptionState]()
        try:
            self._read_positions(topic)
            for topic, group in groupby(self._sources, attrgetter("topic")):
                sources = {source.partition: source for source in group}
                bounds = readers.all_watermarks(self._uncommitted_consumer, topic, sources)
                for partition, source in sources.items():
                    position = self._positions.get(position_key(source))
                    subscription = Subscription(self._topics.process, source)
                    states.append(SubscriptionState(subscription, *bounds[partition], position))
        except (KafkaException, readers.MissingPartitionError, readers.StalledError) as error:
            self.close()  # a client may trust the metadata of an isolated broker for minutes
            if isinstance(error, KafkaException):
                raise clients.to_error(
                    self._connection, error, RequiredAcl("Read", "topic", topic)
                ) from error
            raise clients.unreachable_error(self._connection, error.message) from error
        return states

    def _read_positions(self, topic: str) -> None:
        """Read the positions that were recorded since the previous call."""
        start, end = readers.watermarks(self._committed_consumer, topic, POSITIONS_PARTITION)
        if end < self._next_record:  # the topic was recreated
            self._positions, self._next_record = {}, start
        first = max(start, self._next_record)
        for records in readers.read_with(
            self._connection, self._committed_consumer, topic, POSITIONS_PARTITION, first, end
        ):
            self._positions |= self._decode(records)
        self._next_record = end


def read_subscriptions(
    connection: Connection,
    topics: ProcessTopics,
    aggregates: Iterable[str],
    decode: Callable[[Iterable[Record]], dict[bytes, ProcessPosition]] | None = None,
) -> list[SubscriptionState]:
    """Return the current state of every partition to which a process manager subscribes."""
    with closing(SubscriptionReader(connection, topics, aggregates, decode)) as reader:
        return reader.read_states()
