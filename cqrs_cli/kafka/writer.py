"""The only writer of a partition: a transactional producer that fences the previous writer.

If a record could not be produced, the transaction is not committed: librdkafka's `commit_transaction` would succeed
without the record.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from cqrs_cli import failpoints
from cqrs_cli.core.context import Decisions, Forward, OutputRecord
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.expected_offsets import ExpectedOffsets, OnDelivery
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.transactional import (
    FLUSH_PATIENCE,
    TRANSACTION_TIMEOUT,
    TransactionalWriter,
    WriteTransaction,
)
from cqrs_cli.kafka.write_errors import BatchLateError, unwrapped

#: Timeout in seconds for producing; a batch that needs longer is too large.
PRODUCE_TIMEOUT = TRANSACTION_TIMEOUT / 2

#: Limit in bytes, before compression, of one request to a topic.
_REQUEST_BYTES = 1_000_000

#: Bytes of a record without its value, roughly: key, headers, and other fields.
_AROUND = 128

_value: Callable[[OutputRecord], bytes] = itemgetter(0)

#: The header of a key record: the offset of the first command of its batch.
KEY_CAUSE = "cqrs.command"

_HEADERS: Any = HEADERS  # the stubs want a list of a wider type


class Written(NamedTuple):
    """Lower bounds of the logs' ends after a commit, as delivery reports may come later. None: no report yet."""

    events: int | None
    outcomes: int | None
    deferred: int | None = None
    keys: int | None = None
    last_event: Record | None = None  # the record before the end; None: this writer has written none
    last_outcome: Record | None = None


class DeliveryReport:
    """The delivery report of one record."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self._offset: int | None = None
        self._stamped: tuple[int, int] = TIMESTAMP_NOT_AVAILABLE, 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.error, self._offset, self._stamped = error, message.offset(), message.timestamp()

    def stamp(self) -> int | None:
        """Return the broker's timestamp of the record, ms; None if the topic has the sender's timestamps."""
        kind, time = self._stamped
        return time if kind == TIMESTAMP_LOG_APPEND_TIME else None

    def place(self) -> int:
        """Return the offset; raises `KafkaException`."""
        if self.error is not None or self._offset is None or self._offset < 0:
            raise KafkaException(self.error or KafkaError(KafkaError._FAIL, "the broker gave no offset"))
        return self._offset


class BatchTransaction:
    """One batch of decisions, written in pieces, and the position after them."""

    def __init__(self, writer: "FencedWriter", transaction: WriteTransaction) -> None:
        self._writer, self._transaction = writer, transaction
        self.written = Written(None, None)

    def write(self, piece: Decisions) -> None:
        """Produce a piece; the first piece begins the transaction. Raises `BatchLateError`."""
        self._writer.write(self._transaction, piece)

    def commit_at(self, offset: int, metadata: str) -> None:
        """Set the position, and its metadata, that the end of the block commits."""
        self._transaction.at = self._writer.place(offset, metadata)


class FencedWriter(TransactionalWriter):
    """Writes the records of one partition together with the position, in one transaction."""

    def __init__(
        self,
        log: PartitionLog,
        most_bytes: int,
        timeout: float = TRANSACTION_TIMEOUT,
        produce_timeout: float = PRODUCE_TIMEOUT,
    ) -> None:
        """`most_bytes`: the least `max.message.bytes` among the topics, so that no batch of records exceeds it."""
        self._topics, self._partition = log.topics, log.partition
        self._produce_timeout = produce_timeout
        self._ends = ExpectedOffsets()
        self._unsent = 0  # queued bytes, of the topic that has more
        self._known = set[str]()  # topics of which librdkafka knows all partitions
        self._last_key: DeliveryReport | None = None  # of the open transaction
        super().__init__(
            log.connection,
            log.topics.transactional_id(log.partition),
            log.topics.events,
            min(_REQUEST_BYTES, most_bytes),
            timeout,
        )

    def expect(self, events: int, outcomes: int, deferred: int) -> None:
        """Set the logs' ends as they were read: a commit whose records get other offsets fails."""
        topics = self._topics
        self._ends.set_log_ends({topics.events: events, topics.outcomes: outcomes, topics.deferred: deferred})

    @unwrapped()
    def commit_position(self, group: Consumer, offset: int, metadata: str) -> None:
        """Commit a position and its metadata without records; raises `KafkaException`."""
        self._begin()
        self._finish(group, self.place(offset, metadata))

    def _check(self) -> None:
        self._ends.raise_if_misplaced()

    @contextmanager
    def batch(self, group: Consumer) -> Iterator["BatchTransaction"]:
        """Open a `transaction` for pieces of decisions; `written` has the logs' ends once it is committed."""
        self._last_key = None
        with self.transaction(group) as transaction:
            batch = BatchTransaction(self, transaction)
            yield batch
        self._ends.complete_transaction()
        topics = self._topics
        events, outcomes, deferred = map(
            self._ends.reported_end, (topics.events, topics.outcomes, topics.deferred)
        )
        keys = None if self._last_key is None else self._last_key.place() + 1
        last_event, last_outcome = map(self._ends.last_record, (topics.events, topics.outcomes))
        batch.written = Written(events, outcomes, deferred, keys, last_event, last_outcome)

    def write(self, transaction: WriteTransaction, piece: Decisions) -> None:
        """Produce a piece; raises `BatchLateError`, and `KafkaException` for a record that is too large."""
        if transaction.began is None:
            self._unsent = 0
            self._ends.start_transaction()
        began = transaction.begin()
        if time.monotonic() - began > self._timeout / 2:
            raise BatchLateError("deciding took longer than half the transaction's time")
        self._produce_piece(piece, began + self._produce_timeout)

    def note_growth(self, growth: bytes) -> None:
        """Append a record to the partition history in the open transaction."""
        deadline = time.monotonic() + self._produce_timeout
        self._produce(self._topics.lineage, (growth, None, 0), None, None, deadline, 0)

    def place(self, offset: int, metadata: str) -> TopicPartition:
        """Return the group's position at an offset of the commands."""
        return TopicPartition(self._topics.commands, self._partition, offset, metadata)

    def resubmit(self, commands: Sequence[tuple[bytes, bytes]]) -> list[tuple[int, int | None]]:
        """Append commands, (key, value), to the commands topic in the open transaction. Return the offset and the
        broker's timestamp (ms) of each.

        Raises `KafkaException`, also if the broker reports no offset, and `BatchLateError`.
        """
        deadline = time.monotonic() + self._produce_timeout
        reports = [DeliveryReport() for _ in commands]
        for (key, value), report in zip(commands, reports, strict=True):
            self._produce(self._topics.commands, (value, key, 0), _HEADERS, report, deadline)
        while self._producer.flush(FLUSH_PATIENCE) and not any(report.error for report in reports):
            if time.monotonic() > deadline:
                raise BatchLateError("saying commands again took longer than half the transaction's time")
        return [(report.place(), report.stamp()) for report in reports]

    def note_deferred(self, values: Sequence[tuple[bytes | None, bytes]]) -> None:
        """Append values, (value, key), to the deferred topic in the open transaction."""
        deadline = time.monotonic() + self._produce_timeout
        for number, (value, key) in enumerate(values, 1):
            report = (
                self._ends.expect_records(self._topics.deferred, len(values))
                if number == len(values)
                else None
            )
            self._produce(self._topics.deferred, (value, key, 0), None, report, deadline)

    def note_keys(
        self, partition: int, values: Sequence[tuple[bytes | None, bytes]], cause: int | None = None
    ) -> None:
        """Append keys, (value, subject), to a partition of the keys topic in the open transaction.

        Writers of other partitions may append to it, too, so its end is not checked. `cause`: the offset of the first
        command of their batch, written as a header. If a hanging transaction hides only the keys, recovery needs this
        offset to find out whether the batch was committed.
        """
        if not values:
            return
        deadline = time.monotonic() + self._produce_timeout
        self._hear_of(self._topics.keys)
        self._last_key = DeliveryReport()
        headers = None if cause is None else [(KEY_CAUSE, b"%d" % cause)]
        for number, (value, subject) in enumerate(values, 1):
            report = self._last_key if number == len(values) else None
            self._produce(self._topics.keys, (value, subject, 0), headers, report, deadline, partition)

    def _produce_piece(self, piece: Decisions, deadline: float) -> None:
        """Produce in portions of one request for each topic. Each portion waits for the previous portion.

        While a request is in flight and the next request to the partition is ready, librdkafka's sender thread does not
        sleep but spins (2.16, `rd_kafka_toppar_producer_serve`). It takes the processor from the broker that it waits
        for: the throughput of a backlog fell from 77,000 to 25,000 commands/s on two cores.
        """
        size = max(
            sum(map(len, map(_value, outputs))) + _AROUND * len(outputs)
            for outputs in (piece.events, piece.outcomes)
        )
        portions = 1 + size // self._request_bytes
        for number in range(portions):
            if self._unsent + size // portions > self._request_bytes:
                self._producer.flush(FLUSH_PATIENCE)  # `_finish` reports failures
                self._unsent = 0
            self._unsent += size // portions
            self._produce_all(self._topics.events, _portion(piece.events, number, portions), deadline)
            failpoints.reached("produce.first", self._producer.flush)
            self._produce_all(self._topics.outcomes, _portion(piece.outcomes, number, portions), deadline)
        for letter in piece.dead_letters:
            self._produce(self._topics.dead_letters, letter[:3], letter.headers, None, deadline)
        if piece.forwards:
            self._forward(piece.forwards, deadline)

    def _forward(self, forwards: Sequence[Forward], deadline: float) -> None:
        """Append commands to other partitions."""
        self._hear_of(self._topics.commands)
        for one in forwards:
            record = (one.value, one.key, 0)
            self._produce(self._topics.commands, record, _HEADERS, None, deadline, one.partition)
        failpoints.reached("forward.said", self._producer.flush)

    def _hear_of(self, topic: str) -> None:
        """Request a topic's metadata once, since librdkafka refuses to write to partitions that it does not know."""
        if topic not in self._known:
            self._wait(self._producer.list_topics, topic, self._timeout)
            self._known.add(topic)

    def _produce_all(self, topic: str, outputs: Sequence[OutputRecord], deadline: float) -> None:
        """Produce records to one topic. Hot path: positional arguments, and only the last record reports its offset."""
        if not outputs:
            return
        produce, partition, headers = self._producer.produce, self._partition, _HEADERS
        for number, (value, key, timestamp) in enumerate(outputs[:-1]):
            try:
                produce(topic, value, key, partition, None, None, timestamp, headers)
            except BufferError:
                self._produce(topic, outputs[number], HEADERS, None, deadline)
        report = self._ends.expect_records(topic, len(outputs), outputs[-1])
        self._produce(topic, outputs[-1], HEADERS, report, deadline)

    def _produce(
        self,
        topic: str,
        output: tuple[bytes | None, bytes | None, int],
        headers: Any,
        report: OnDelivery | None,
        deadline: float,
        partition: int | None = None,
    ) -> None:
        """Produce one record; wait while the queue is full. `partition`: None for the writer's own partition."""
        value, key, timestamp = output
        to = self._partition if partition is None else partition
        while True:
            try:
                self._producer.produce(topic, value, key, to, report, None, timestamp, headers)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise BatchLateError("producing took longer than half the transaction's time") from None
                self._producer.poll(0.05)


def _portion(outputs: Sequence[OutputRecord], number: int, portions: int) -> Sequence[OutputRecord]:
    return outputs[number * len(outputs) // portions : (number + 1) * len(outputs) // portions]
