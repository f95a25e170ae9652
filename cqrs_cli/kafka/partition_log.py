"""One partition in the five topics of an aggregate, as a value with methods to query and read it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.codec.record_codec import AS_STORED, RecordCodec
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
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.kafka.topics.topics import Kind, Topics


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One partition of an aggregate's topics. Without a `pool` it has no client, so it can be sent to a worker.

    A method without a parameter `client` acquires a client from the pool, or opens and closes a client. A method with
    this parameter raises `KafkaException`. Only `events` and `decode_events` decode records, with `codec`. If
    `key_filter` is set, events and outcomes of other keys are left out.
    """

    connection: Cluster
    topics: Topics
    partition: int
    codec: RecordCodec = field(default=AS_STORED, compare=False)
    key_filter: KeyFilter | None = None
    pool: ConsumerPool | None = field(default=None, compare=False, repr=False)

    def log_name(self, kind: Kind) -> str:
        """Return the name of a log for messages, such as `bank_account.events partition 3`."""
        return f"{self.topics.name(kind)} partition {self.partition}"

    def bounds(self, kind: Kind, isolation: Isolation = "read_committed") -> tuple[int, int]:
        """Return (log start, end). The end is the last stable offset, or with read_uncommitted the high watermark."""
        topic, partitions = self.topics.name(kind), [self.partition]
        return readers.bounds(self.connection, topic, partitions, isolation, self.pool)[self.partition]

    def watermarks(self, client: Consumer, kind: Kind) -> tuple[int, int]:
        """Return the `bounds` for the isolation level of this client."""
        return readers.watermarks(client, self.topics.name(kind), self.partition)

    def has_open_transaction(
        self, committed_reader: Consumer, uncommitted_reader: Consumer, kind: Kind
    ) -> bool:
        """True if a transaction is open. The two readers have the isolation levels read_committed and read_uncommitted.

        The high watermark is requested first. So records that are appended between the two requests do not count as an
        open transaction.
        """
        high_watermark = self.watermarks(uncommitted_reader, kind)[1]
        return self.watermarks(committed_reader, kind)[1] < high_watermark

    def read(self, kind: Kind, start: int, end: int, batch: int = 10_000) -> Iterator[list[Record]]:
        """Yield all committed records with start ≤ offset < end, in batches and unchanged.

        Raises `StalledError` if a record stays hidden.
        """
        topic, pool = self.topics.name(kind), self.pool
        batches = readers.read(self.connection, topic, self.partition, start, end, batch=batch, pool=pool)
        return self._own_records(kind, batches)

    def _own_records(self, kind: Kind, batches: Iterator[list[Record]]) -> Iterator[list[Record]]:
        if self.key_filter is None or kind not in ("events", "outcomes"):
            return batches
        return filter(None, map(self.key_filter.matching, batches))

    def events(self, start: int, end: int, batch: int = 10_000) -> Iterator[list[Record]]:
        """Yield decoded events; raises the errors of `read` and of the codec."""
        return self.decode_events(self.read("events", start, end, batch))

    def decode_events(self, batches: Iterable[list[Record]]) -> Iterator[list[Record]]:
        """Decode batches of events of this partition."""
        return self.codec.decode_batches(self.topics.events, self.partition, batches)

    def read_with(
        self, client: Consumer, kind: Kind, start: int, end: int, timeout: float = REQUEST_TIMEOUT
    ) -> Iterator[list[Record]]:
        """Yield records as `read` does, with a given client. `timeout`: seconds without progress."""
        topic = self.topics.name(kind)
        batches = readers.read_with(
            self.connection, client, topic, self.partition, start, end, timeout=timeout
        )
        return self._own_records(kind, batches)

    def messages_with(self, client: Consumer, kind: Kind, start: int, end: int) -> Iterator[Sequence[Any]]:
        """Yield batches as `read_with` does, but of librdkafka's messages instead of `Record` objects."""
        topic, key_filter = self.topics.name(kind), self.key_filter
        batches = readers.messages_with(self.connection, client, topic, self.partition, start, end)
        if key_filter is None:
            return batches
        return filter(
            None,
            (
                [message for message in messages if key_filter.matches(message.key() or b"")]
                for messages in batches
            ),
        )

    def follow(self, client: Consumer, kind: Kind, start: int) -> Follower:
        """Return a follower from offset `start` on, with a client of the owners' group. It raises a `KafkaException` if
        an ACL is missing (the owner then finds out which ACL), otherwise the error of `read_error`.
        """
        assign(client, [TopicPartition(self.topics.name(kind), self.partition, start)])

        def read_error(topic: str, partition: int, error: KafkaError) -> Exception:
            return KafkaException(error) if is_denied(error) else self.read_error(kind, error)

        return Follower(client, read_error, own_group=True)

    def first_record(self, kind: Kind, start: int, end: int) -> Record | None:
        """Return the first committed record with start ≤ offset < end; None if there is no such record."""
        topic, pool = self.topics.name(kind), self.pool
        return readers.first_record(self.connection, topic, self.partition, start, end, pool)

    def first_hidden_record(self, kind: Kind) -> Record | None:
        """Return the first record at or after the last stable offset, committed or not; None if there is no such
        record.
        """
        high_watermark, end = self.bounds(kind, "read_uncommitted")[1], self.bounds(kind)[1]
        topic = self.topics.name(kind)
        hidden_batches = readers.read(
            self.connection, topic, self.partition, end, high_watermark, "read_uncommitted"
        )
        return next((records[0] for records in hidden_batches), None)

    def last_record(self, kind: Kind, start: int, end: int) -> Record | None:
        """Return the last committed record with start ≤ offset < end; None if there is no such record."""
        topic, pool = self.topics.name(kind), self.pool
        return readers.last_record(self.connection, topic, self.partition, start, end, pool)

    def offset_at(self, kind: Kind, timestamp: int) -> int | None:
        """Return the first offset whose record is not older than `timestamp` (ms); None if there is no such record."""
        topic, pool = self.topics.name(kind), self.pool
        return readers.offset_at(self.connection, topic, self.partition, timestamp, pool)

    def committed_position(self) -> GroupCommit:
        """Return the position that the owners' group has committed, without waiting for a pending commit."""
        partitions = [self.partition]
        return offsets.committed_offsets_now(self.connection, self.topics, partitions, self.pool)[
            self.partition
        ]

    def committed_position_by(self, client: Consumer, timeout: float = REQUEST_TIMEOUT) -> GroupCommit:
        """Return `committed_position`, with a given client of the group. A read_committed client waits for a pending
        commit.
        """
        return offsets.committed_offsets(client, self.topics.commands, [self.partition], timeout)[
            self.partition
        ]

    def fault(
        self, kind: Kind, offset: int, error: Exception | str, extra_hint: str = ""
    ) -> ContradictionError:
        """Return the error for an unreadable or inconsistent record.

        Its hint contains the command that shows the record.
        """
        aggregate, topic = self.topics.aggregate, self.topics.name(kind)
        return record_fault(aggregate, kind, topic, self.partition, offset, error, extra_hint)

    def read_error(self, kind: Kind, error: KafkaError) -> Exception:
        """Return the error to raise if librdkafka returns an error in place of a message."""
        return readers.read_error(self.connection, self.topics.name(kind), self.partition, error)
