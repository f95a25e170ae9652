"""Reads one partition of an aggregate's events from a position on, without end."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, TopicPartition

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.leaders import assign
from cqrs_cli.kafka.records import records_of
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.observer import reached

#: Reports a message to the operator.
ReportMessage = Callable[[str], None]


class EventPartition(NamedTuple):
    """A partition of an aggregate's events."""

    aggregate: str
    topic: str  # the events topic, with prefix
    partition: int

    @property
    def topics(self) -> Topics:
        """The names of the aggregate's topics."""
        return Topics(self.aggregate, self.topic.removesuffix(f"{self.aggregate}.events"))


class PartitionsAddedError(UnavailableError):
    """Partitions were added to an events topic. A reader reads them only after a restart."""


def require_all_partitions(counts: Mapping[str, int], sources: Iterable[EventPartition]) -> None:
    """Raise `PartitionsAddedError` if a topic has more partitions than are in `sources`. `counts`: topic → partition
    count.
    """
    read_counts = Counter(topic for topic, _ in {(source.topic, source.partition) for source in sources})
    for topic, count in counts.items():
        if count > read_counts[topic]:
            raise PartitionsAddedError(
                f"{topic} has {count} partitions now, {read_counts[topic]} of them are read",
                "start it again: it then continues at its positions, and also reads the new partitions",
            )


class Tail(Protocol):
    """A reader of one partition from a position on."""

    #: The last record that `poll` has returned, but as it is in the log, before it was decoded. None at first.
    last_record: Record | None

    def poll(self, max_records: int) -> tuple[list[Record], int]:
        """Return up to `max_records` new records, and the position from which the next call reads."""

    def close(self) -> None: ...


class PartitionTail:
    """A reader of one partition of events. It decodes the events with a codec.

    If no broker answers, `poll` waits and reports this once. Without `wait_for_broker`, it raises `UnavailableError`.
    """

    def __init__(
        self,
        connection: Cluster,
        source: EventPartition,
        start: int,
        codec: RecordCodec,
        reader: Consumer | None = None,
        *,
        wait_for_broker: bool = True,
    ) -> None:
        """`codec`: is closed by `close`. `reader`: the consumer to use; None: open a consumer."""
        self._source, self._codec, self._position = source, codec, start
        self.last_record: Record | None = None
        #: Records that were received but not returned yet: `poll` returns large data in portions.
        self._pending: list[Record] = []
        self._reader = reader or clients.bulk_consumer(
            connection, on_error=self._on_client_error, fetch_wait_max_ms=100
        )
        assign(self._reader, [TopicPartition(source.topic, source.partition, start)])
        self._follower = (
            readers.waiting_follower(connection, self._reader, lambda text: reached("message", text=text))
            if wait_for_broker
            else Follower(self._reader, partial(readers.read_error, connection))
        )

    def poll(self, max_records: int) -> tuple[list[Record], int]:
        """Return decoded records, as `Tail.poll` does. If decoding fails, the next call decodes these records again."""
        source = self._source
        self._pending = self._pending or self._receive(max_records)
        batch = self._pending[:max_records]
        records, undecoded = self._codec.decode(source.topic, source.partition, batch)
        self._pending = [*undecoded, *self._pending[max_records:]]
        if records:
            self.last_record = batch[len(records) - 1]
        return records, self._pending[0].offset if self._pending else self._position

    def _receive(self, max_records: int) -> list[Record]:
        messages = self._follower.poll(max_records)
        offset_after_last = (messages[-1].offset() or 0) + 1 if messages else 0
        partition_end = self._follower.ends.get((self._source.topic, self._source.partition), 0)
        self._position = max(self._position, offset_after_last, partition_end)
        return records_of(messages)

    def _on_client_error(self, error: KafkaError) -> None:
        self._follower.handle_client_error(error)

    def close(self) -> None:
        self._reader.close()
        self._codec.close()
