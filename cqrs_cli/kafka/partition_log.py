"""One partition in the five topics of an aggregate, as a value with methods to query and read it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka import offsets, readers
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, Isolation, is_denied
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.leaders import assign
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.topics.partitioner import KeyHome
from cqrs_cli.kafka.topics.topics import Kind, Topics
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.download import checked_out


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The address of one partition in an aggregate's topics. Without a `lender` it holds no client, and can be sent to
    a worker.

    A method without a client parameter acquires a client from the pool, or opens a client and closes it. A method with
    a client parameter raises `KafkaException`. Records are unchanged, except from `events` and `with_data`, which
    download large data from `payloads`. `keeps`: a key filter; events and outcomes of other keys are left out.
    """

    connection: Cluster
    topics: Topics
    partition: int
    payloads: PayloadStoreAddress | None = None
    keeps: KeyHome | None = None
    lender: ConsumerPool | None = field(default=None, compare=False, repr=False)

    def place(self, kind: Kind) -> str:
        """Return the log's name for messages: `bank_account.events partition 3`."""
        return f"{self.topics.name(kind)} partition {self.partition}"

    def bounds(self, kind: Kind, isolation: Isolation = "read_committed") -> tuple[int, int]:
        """Return (log start, end). The end is the last stable offset, or with read_uncommitted the high watermark."""
        topic, numbers = self.topics.name(kind), [self.partition]
        return readers.bounds(self.connection, topic, numbers, isolation, self.lender)[self.partition]

    def watermarks(self, client: Consumer, kind: Kind) -> tuple[int, int]:
        """Return the `bounds` as this client's isolation shows them."""
        return readers.watermarks(client, self.topics.name(kind), self.partition)

    def is_open(self, committed: Consumer, any: Consumer, kind: Kind) -> bool:
        """True if a transaction is open. `committed` is a read_committed client, `any` a read_uncommitted client.

        The high watermark is requested first, so that records that are appended between the requests do not count as an
        open transaction.
        """
        high = self.watermarks(any, kind)[1]
        return self.watermarks(committed, kind)[1] < high

    def read(self, kind: Kind, start: int, end: int, batch: int = 10_000) -> Iterator[list[Record]]:
        """Yield all committed records with start ≤ offset < end, in batches and unchanged.

        Raises `StalledError` if a record stays hidden.
        """
        topic, lender = self.topics.name(kind), self.lender
        found = readers.read(self.connection, topic, self.partition, start, end, batch=batch, lender=lender)
        return self._kept(kind, found)

    def _kept(self, kind: Kind, batches: Iterator[list[Record]]) -> Iterator[list[Record]]:
        if self.keeps is None or kind not in ("events", "outcomes"):
            return batches
        return filter(None, map(self.keeps.held, batches))

    def events(self, start: int, end: int, batch: int = 10_000) -> Iterator[list[Record]]:
        """Yield events as `read` does, with their data; raises `PayloadUnavailableError`."""
        return self.with_data("events", self.read("events", start, end, batch))

    def with_data(self, kind: Kind, batches: Iterable[list[Record]]) -> Iterator[list[Record]]:
        """Yield the given records: events with their data, other records unchanged."""
        return checked_out(self.payloads, self.topics.name(kind), self.partition, batches)

    def read_with(
        self, client: Consumer, kind: Kind, start: int, end: int, patience: float = REQUEST_TIMEOUT
    ) -> Iterator[list[Record]]:
        """Yield records as `read` does, with a given client. `patience`: timeout in seconds without progress."""
        topic = self.topics.name(kind)
        found = readers.read_with(
            self.connection, client, topic, self.partition, start, end, patience=patience
        )
        return self._kept(kind, found)

    def messages_with(self, client: Consumer, kind: Kind, start: int, end: int) -> Iterator[Sequence[Any]]:
        """Yield batches as `read_with` does, as librdkafka's messages."""
        topic, keeps = self.topics.name(kind), self.keeps
        found = readers.messages_with(self.connection, client, topic, self.partition, start, end)
        if keeps is None:
            return found
        return filter(None, ([one for one in some if keeps.has(one.key() or b"")] for some in found))

    def follow(self, client: Consumer, kind: Kind, start: int) -> Follower:
        """Return a follower from `start` on, with a client of the owners' group. Any error ends it: `KafkaException` if
        an ACL is missing, so that the owner can find out which ACL, otherwise the error of `failure`.
        """
        assign(client, [TopicPartition(self.topics.name(kind), self.partition, start)])

        def failure(topic: str, partition: int, error: KafkaError) -> Exception:
            return KafkaException(error) if is_denied(error) else self.failure(kind, error)

        return Follower(client, failure, own_group=True)

    def first_record(self, kind: Kind, start: int, end: int) -> Record | None:
        """Return the first committed record with start ≤ offset < end; None if there is none."""
        topic, lender = self.topics.name(kind), self.lender
        return readers.first_record(self.connection, topic, self.partition, start, end, lender)

    def first_hidden(self, kind: Kind) -> Record | None:
        """Return the first record at or after the last stable offset, committed or not; None if there is none."""
        high, end = self.bounds(kind, "read_uncommitted")[1], self.bounds(kind)[1]
        topic = self.topics.name(kind)
        hidden = readers.read(self.connection, topic, self.partition, end, high, "read_uncommitted")
        return next((records[0] for records in hidden), None)

    def last_record(self, kind: Kind, start: int, end: int) -> Record | None:
        """Return the last committed record with start ≤ offset < end; None if there is none."""
        topic, lender = self.topics.name(kind), self.lender
        return readers.last_record(self.connection, topic, self.partition, start, end, lender)

    def offset_at(self, kind: Kind, timestamp: int) -> int | None:
        """Return the first offset whose record is not older than `timestamp` (ms); None if there is none."""
        topic, lender = self.topics.name(kind), self.lender
        return readers.offset_at(self.connection, topic, self.partition, timestamp, lender)

    def committed(self) -> GroupCommit:
        """Return the position that the owners' group has committed, without waiting for a pending commit."""
        numbers = [self.partition]
        return offsets.committed_now(self.connection, self.topics, numbers, self.lender)[self.partition]

    def committed_by(self, client: Consumer, timeout: float = REQUEST_TIMEOUT) -> GroupCommit:
        """Return `committed`, with a given client of the group: a read_committed client waits for a pending commit."""
        return offsets.committed(client, self.topics.commands, [self.partition], timeout)[self.partition]

    def fault(self, kind: Kind, offset: int, error: Exception | str, also: str = "") -> ContradictionError:
        """Return the error for a record that cannot be read or is inconsistent, with the command that shows it."""
        aggregate, topic = self.topics.aggregate, self.topics.name(kind)
        return record_fault(aggregate, kind, topic, self.partition, offset, error, also)

    def failure(self, kind: Kind, error: KafkaError) -> Exception:
        """Return the error to raise for an error in place of a message."""
        return readers.read_failure(self.connection, self.topics.name(kind), self.partition, error)
