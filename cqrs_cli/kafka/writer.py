"""The writer of a partition's decisions: events, outcomes, dead letters, deferred commands and data keys, in one
transaction with the position (`kafka.transactional`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from cqrs_cli.core.context import Decisions, Forward, OutputRecord
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.delivery_report import DeliveryReport
from cqrs_cli.kafka.expected_offsets import ExpectedOffsets
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.transactional import (
    FLUSH_TIMEOUT,
    RECORD_OVERHEAD,
    TRANSACTION_TIMEOUT,
    TransactionalWriter,
)
from cqrs_cli.kafka.write_errors import BatchLateError, unwrapping_fatal_errors
from cqrs_cli.kafka.write_transaction import WriteTransaction
from cqrs_cli.observer import reached

#: Timeout in seconds for queueing the records of a batch. A batch that takes longer is too large.
PRODUCE_TIMEOUT = TRANSACTION_TIMEOUT / 2

#: Limit in bytes, before compression, of one request to a topic.
_REQUEST_BYTES = 1_000_000

#: The key of a probe, in the form of the keys of the deferred topic. A probe has no value, and is never committed.
_PROBE_KEY = b"probe/0"

_value_of: Callable[[OutputRecord], bytes] = itemgetter(0)

#: The header of a record in the keys or deferred topic with the offset of the first command of its batch.
FIRST_COMMAND = "cqrs.command"

_HEADERS: Any = HEADERS  # the stubs want a list of a wider type


class WrittenEnds(NamedTuple):
    """The ends of the logs after a commit, according to the delivery reports so far. An end is a lower bound, because
    reports may be missing. None: there is no report for the log yet.
    """

    events: int | None
    outcomes: int | None
    deferred: int | None = None
    keys: int | None = None
    #: The event before the end `events`; None if this writer has written no event.
    last_event: Record | None = None
    last_outcome: Record | None = None  # the outcome before the end `outcomes`, or None


class BatchTransaction:
    """One batch of decisions, written in pieces, and the position after them."""

    def __init__(self, writer: "FencedWriter", transaction: WriteTransaction) -> None:
        self._writer, self._transaction = writer, transaction
        self.written = WrittenEnds(None, None)

    def write(self, piece: Decisions) -> None:
        """Produce a piece; the first piece begins the transaction. Raises `BatchLateError`."""
        self._writer.write(self._transaction, piece)

    def set_position(self, offset: int, metadata: str, is_due: bool = True) -> None:
        """Set the position and its metadata, which are committed at the end of the `batch` block.

        `is_due`: False to commit no position with this batch. It is not needed each time, because the outcomes show
        which commands are decided.
        """
        self._transaction.position = self._writer.group_position(offset, metadata)
        self._transaction.commits_position = is_due


class FencedWriter(TransactionalWriter):
    """Writes the records of one partition together with the position, in one transaction."""

    def __init__(
        self,
        log: PartitionLog,
        max_message_bytes: int,
        timeout: float = TRANSACTION_TIMEOUT,
        produce_timeout: float = PRODUCE_TIMEOUT,
    ) -> None:
        """`max_message_bytes`: the smallest `max.message.bytes` of the topics, which no batch of records may exceed."""
        self._topics = log.topics
        self._produce_timeout = produce_timeout
        self._expected = ExpectedOffsets()
        self._known_topics = set[str]()  # topics of which librdkafka knows all partitions
        #: The report of the last key record in the open transaction.
        self._last_key_report: DeliveryReport | None = None
        super().__init__(
            log.connection,
            log.topics.transactional_id(log.partition),
            log.topics.events,
            min(_REQUEST_BYTES, max_message_bytes),
            timeout,
            log.partition,
        )

    def set_log_ends(self, events: int, outcomes: int, deferred: int) -> None:
        """Set the ends up to which the logs were read. The first commit fails if its records do not directly follow
        these ends.
        """
        topics = self._topics
        self._expected.set_log_ends(
            {topics.events: events, topics.outcomes: outcomes, topics.deferred: deferred}
        )

    @unwrapping_fatal_errors()
    def commit_position(self, group: Consumer, offset: int, metadata: str) -> None:
        """Commit a position and its metadata without records; raises `KafkaException`."""
        self._begin()
        self._finish(group, self.group_position(offset, metadata))

    @unwrapping_fatal_errors()
    def prove_log_ends(self) -> None:
        """Prove that the ends of `set_log_ends` are current: write a probe to each log without a committed record of
        this writer, compare the offsets, and abort the transaction.

        A log with such a record needs no probe. An abort there could even be fatal: if Kafka has omitted the marker of
        the last commit, the abort also discards the committed records. Raises `UnreadRecordsError`,
        `TopicRecreatedError` and `KafkaException`.
        """
        topics = self._expected.unproven_topics()
        if not topics:
            return
        self._expected.start_transaction()
        self._begin()
        deadline = time.monotonic() + self._produce_timeout
        for topic in topics:
            report = self._expected.expect_records(topic, 1)
            self._produce(topic, (None, _PROBE_KEY, 0), None, report, deadline)
        self._call(self._producer.flush, self._timeout)
        self._call(self._producer.abort_transaction, self._timeout)
        self._check_offsets()
        if not self._are_records_written():
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no probe was written to {topics}"))
        self._expected.complete_transaction(is_committed=False)

    def _are_records_written(self) -> bool:
        return self._expected.are_all_reported()

    def _check_offsets(self) -> None:
        self._expected.raise_if_misplaced()

    @contextmanager
    def batch(self, group: Consumer) -> Iterator["BatchTransaction"]:
        """Open a `transaction` for the pieces of a batch. After the commit, `BatchTransaction.written` has the ends of
        the logs.
        """
        self._last_key_report = None
        with self.transaction(group) as transaction:
            batch = BatchTransaction(self, transaction)
            yield batch
        self._expected.complete_transaction()
        topics = self._topics
        events, outcomes, deferred = map(
            self._expected.reported_end, (topics.events, topics.outcomes, topics.deferred)
        )
        keys = None if self._last_key_report is None else self._last_key_report.offset() + 1
        last_event, last_outcome = map(self._expected.last_record, (topics.events, topics.outcomes))
        batch.written = WrittenEnds(events, outcomes, deferred, keys, last_event, last_outcome)

    def write(self, transaction: WriteTransaction, piece: Decisions) -> None:
        """Produce a piece; raises `BatchLateError`, and `KafkaException` for a record that is too large."""
        if transaction.began_at is None:
            self._expected.start_transaction()
        began_at = transaction.ensure_begun()
        if time.monotonic() - began_at > self._timeout / 2:
            raise BatchLateError("deciding took longer than half the transaction's time")
        self._produce_piece(piece, began_at + self._produce_timeout)

    def append_partition_history(self, record: bytes) -> None:
        """Append a record to the partition history in the open transaction."""
        deadline = time.monotonic() + self._produce_timeout
        self._produce(self._topics.lineage, (record, None, 0), None, None, deadline, 0)

    def group_position(self, offset: int, metadata: str) -> TopicPartition:
        """Return the group's position at an offset of the commands."""
        return TopicPartition(self._topics.commands, self._partition, offset, metadata)

    def resubmit(self, commands: Sequence[tuple[bytes, bytes]]) -> list[tuple[int, int | None]]:
        """Append commands, (key, value), to the commands topic in the open transaction. Return, for each command, its
        offset and the broker's timestamp in ms (None if the topic has the sender's timestamps).

        Raises `BatchLateError`, and `KafkaException`, for example if the broker reports no offset.
        """
        deadline = time.monotonic() + self._produce_timeout
        reports = [DeliveryReport() for _ in commands]
        for (key, value), report in zip(commands, reports, strict=True):
            self._produce(self._topics.commands, (value, key, 0), _HEADERS, report, deadline)
        while self._producer.flush(FLUSH_TIMEOUT) and not any(report.error for report in reports):
            if time.monotonic() > deadline:
                raise BatchLateError("resubmitting commands took longer than half the transaction's time")
        return [(report.offset(), report.append_time()) for report in reports]

    def append_deferred(
        self, records: Sequence[tuple[bytes | None, bytes]], cause: int | None = None
    ) -> None:
        """Append records, (value, key), to the deferred topic in the open transaction. `cause`: see `append_keys`; None
        if no batch caused the records.
        """
        deadline = time.monotonic() + self._produce_timeout
        headers = _cause_headers(cause)
        for number, (value, key) in enumerate(records, 1):
            report = (
                self._expected.expect_records(self._topics.deferred, len(records))
                if number == len(records)
                else None
            )
            self._produce(self._topics.deferred, (value, key, 0), headers, report, deadline)

    def append_keys(
        self, partition: int, records: Sequence[tuple[bytes | None, bytes]], cause: int | None = None
    ) -> None:
        """Append records, (value, subject), to a partition of the keys topic in the open transaction.

        Their offsets are not checked, because writers of other partitions may append to the same partition. `cause`:
        the offset of the first command of the batch, which becomes a header of the records. If a hanging transaction
        hides only records of the keys topic, `deciding.in_doubt` needs this offset to find out whether the batch was
        committed.
        """
        if not records:
            return
        deadline = time.monotonic() + self._produce_timeout
        self._load_metadata(self._topics.keys)
        self._last_key_report = DeliveryReport()
        headers = _cause_headers(cause)
        for number, (value, subject) in enumerate(records, 1):
            report = self._last_key_report if number == len(records) else None
            self._produce(self._topics.keys, (value, subject, 0), headers, report, deadline, partition)

    def _produce_piece(self, piece: Decisions, deadline: float) -> None:
        """Produce a piece in portions. The events of a portion fit into one request, and so do its outcomes."""
        piece_bytes = max(
            sum(map(len, map(_value_of, outputs))) + RECORD_OVERHEAD * len(outputs)
            for outputs in (piece.events, piece.outcomes)
        )
        portions = 1 + piece_bytes // self._request_bytes
        for number in range(portions):
            self._start_portion(piece_bytes // portions)
            self._produce_all(self._topics.events, _portion(piece.events, number, portions), deadline)
            reached("produce.first", flush=self._producer.flush)
            self._produce_all(self._topics.outcomes, _portion(piece.outcomes, number, portions), deadline)
        for dead_letter in piece.dead_letters:
            self._produce(self._topics.dead_letters, dead_letter[:3], dead_letter.headers, None, deadline)
        if piece.forwards:
            self._forward(piece.forwards, deadline)

    def _forward(self, forwards: Sequence[Forward], deadline: float) -> None:
        """Append forwarded commands to other partitions of the commands topic."""
        self._load_metadata(self._topics.commands)
        for forward in forwards:
            record = (forward.value, forward.key, 0)
            self._produce(self._topics.commands, record, _HEADERS, None, deadline, forward.partition)
        reached("forward.produced", flush=self._producer.flush)

    def _load_metadata(self, topic: str) -> None:
        """Request a topic's metadata, once for each topic: librdkafka does not write to partitions that it does not
        know.
        """
        if topic not in self._known_topics:
            self._call(self._producer.list_topics, topic, self._timeout)
            self._known_topics.add(topic)

    def _produce_all(self, topic: str, outputs: Sequence[OutputRecord], deadline: float) -> None:
        """Produce records to one topic. This is a hot path: only the last record has a delivery report."""
        if not outputs:
            return
        produce, partition, headers = self._producer.produce, self._partition, _HEADERS
        for number, (value, key, timestamp) in enumerate(outputs[:-1]):
            try:
                produce(topic, value, key, partition, None, None, timestamp, headers)
            except BufferError:
                self._produce(topic, outputs[number], HEADERS, None, deadline)
        report = self._expected.expect_records(topic, len(outputs), outputs[-1])
        self._produce(topic, outputs[-1], HEADERS, report, deadline)


def _cause_headers(cause: int | None) -> list[tuple[str, bytes]] | None:
    return None if cause is None else [(FIRST_COMMAND, b"%d" % cause)]


def _portion(outputs: Sequence[OutputRecord], number: int, portions: int) -> Sequence[OutputRecord]:
    return outputs[number * len(outputs) // portions : (number + 1) * len(outputs) // portions]
