"""Reads one partition of an aggregate's events from a position on: committed records, and the position after them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, TopicPartition

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.leaders import assign
from cqrs_cli.kafka.records import records_of
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.event_decryptor import EventDecryptor
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.download import check_out

#: Reports a message to the operator.
Tell = Callable[[str], None]


class EventPartition(NamedTuple):
    """A partition of an aggregate's events."""

    aggregate: str
    topic: str
    partition: int

    @property
    def topics(self) -> Topics:
        """The names of the aggregate's topics."""
        return Topics(self.aggregate, self.topic.removesuffix(f"{self.aggregate}.events"))


class OutgrownError(UnavailableError):
    """A topic of events has more partitions than are read. After a restart all of them are read."""


def check_sizes(sizes: Mapping[str, int], sources: Iterable[EventPartition]) -> None:
    """Raise `OutgrownError` if a topic has more partitions than `sources` lists."""
    known = Counter(topic for topic, _ in {(one.topic, one.partition) for one in sources})
    for topic, size in sizes.items():
        if size > known[topic]:
            raise OutgrownError(
                f"{topic} has {size} partitions now, {known[topic]} of them are read",
                "start again: it goes on where it is, and reads the others, too",
            )


class Tail(Protocol):
    """A reader of one partition from a position on."""

    def poll(self, most: int) -> tuple[list[Record], int]:
        """Return up to `most` new records, and the next position, which may be after control records, too."""

    def close(self) -> None: ...


class PartitionTail:
    """A reader of one partition of events, with their data, decrypted if there is an opener.

    If it is `patient`, it waits for a broker that does not answer, and reports that once; otherwise it raises
    `UnavailableError`.
    """

    def __init__(
        self,
        connection: Cluster,
        source: EventPartition,
        start: int,
        note: Tell,
        payloads: PayloadStoreAddress | None,
        reader: Consumer | None = None,
        opener: EventDecryptor | None = None,
        *,
        patient: bool = True,
    ) -> None:
        """`payloads`: the address of large data. `reader`: the client to read with; by default a new client. `opener`:
        decrypts the events; `close` closes it, too.
        """
        self._source, self._payloads, self._position = source, payloads, start
        self._opener = opener
        self._waiting: list[Record] = []  # received but not returned yet: large data come in portions
        self._reader = reader or clients.bulk_consumer(connection, on_error=self._hear, fetch_wait_max_ms=100)
        assign(self._reader, [TopicPartition(source.topic, source.partition, start)])
        self._follower = (
            readers.patient_follower(connection, self._reader, note)
            if patient
            else Follower(self._reader, partial(readers.read_failure, connection))
        )

    def poll(self, most: int) -> tuple[list[Record], int]:
        """Raises `PayloadUnavailableError`, and the errors of the decryption; the next call tries again."""
        place, source = self._payloads, self._source
        self._waiting = self._waiting or self._arrived(most)
        records, rest = self._waiting, list[Record]()
        if place is not None:
            records, rest = check_out(place, source.topic, source.partition, self._waiting[:most])
            rest = [*rest, *self._waiting[most:]]
        if self._opener is not None:
            records = self._opener.opened(source.partition, records)
        self._waiting = rest
        return records, self._waiting[0].offset if self._waiting else self._position

    def _arrived(self, most: int) -> list[Record]:
        messages, ends = self._follower.poll(most), self._follower.ends
        behind = (messages[-1].offset() or 0) + 1 if messages else 0
        place = self._source.topic, self._source.partition
        self._position = max(self._position, behind, ends.get(place, 0))
        return records_of(messages)

    def _hear(self, error: KafkaError) -> None:
        self._follower.hear(error)

    def close(self) -> None:
        self._reader.close()
        if self._opener is not None:
            self._opener.close()
