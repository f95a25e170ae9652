"""Expected offsets of a partition's only writer: they emulate a conditional append, which Kafka lacks.

The writer has read the log to its end, so its next record must get the offset of that end. The record gets a later
offset if the read came from a broker that was no longer the leader, and an earlier offset if the topic was recreated.
Then the transaction is not committed.

There is one exception: Kafka may omit the commit marker of the writer's previous transaction (kafka/admin/hanging.py).
Then the log is one offset shorter, and the previous transaction is still open in it. The commit of the current
transaction then commits both transactions.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import KafkaError, Message

from cqrs_cli.core.context import OutputRecord
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.write_errors import TopicRecreatedError, UnreadRecordsError

#: Called by librdkafka with the delivery report of a record.
OnDelivery = Callable[[KafkaError | None, Message], None]


class ExpectedOffsets:
    """Compares the offsets of a writer's records with the expected offsets. Logs that were not read are not checked."""

    def __init__(self) -> None:
        self._reported_ends: dict[str, int] = {}  # topic → the offset after the last reported record
        self._last_records: dict[str, Record] = {}  # topic → the last reported record
        self._next_offsets: dict[str, int] = {}  # topic → the expected offset of the next record
        #: Topic → the number of delivery reports that are missing in this transaction.
        self._unreported_counts: Counter[str] = Counter()
        self._reported_topics: set[str] = set()  # topics with a delivery report in this transaction
        self._committed_topics: set[str] = set()  # topics with a committed record of this writer
        self._topics_without_marker: set[str] = set()  # topics without the marker of the last commit
        self._error: Exception | None = None

    def set_log_ends(self, ends: Mapping[str, int]) -> None:
        """Set the ends up to which the logs were read. `ends`: topic → offset after the last record."""
        self._reported_ends, self._next_offsets = dict(ends), dict(ends)

    def start_transaction(self) -> None:
        """Prepare for the records of a new transaction."""
        self._unreported_counts.clear()
        self._reported_topics.clear()
        self._topics_without_marker.clear()

    def expect_records(self, topic: str, count: int, last_record: OutputRecord | None = None) -> OnDelivery:
        """Register that `count` more records are produced to a topic. `last_record`: the last of these records.

        Return the callback for the delivery report of the last record. The other records need no callback.
        """
        self._unreported_counts[topic] += 1
        end = self._next_offsets.pop(topic, None)
        if end is not None:
            end += count
            self._next_offsets[topic] = end
        return partial(self._report, topic, end, last_record)

    def _report(
        self,
        topic: str,
        expected_end: int | None,
        last_record: OutputRecord | None,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        """Handle a delivery report. `expected_end`: the expected offset after the record; None: do not check it."""
        offset = message.offset()
        if error is not None or offset is None or offset < 0:
            return
        end = offset + 1
        self._unreported_counts[topic] -= 1
        self._reported_ends[topic] = end
        if last_record is not None:
            value, key, timestamp = last_record
            self._last_records[topic] = Record(offset, timestamp, key, value)
        if expected_end is not None:
            is_first_report = topic not in self._reported_topics
            if is_first_report and topic in self._committed_topics and end == expected_end - 1:
                self._topics_without_marker.add(topic)
            missing_markers = 1 if topic in self._topics_without_marker else 0
            self._check_end(topic, expected_end - missing_markers, end)
        self._reported_topics.add(topic)

    def _check_end(self, topic: str, expected: int, end: int) -> None:
        if end < expected:
            self._error = TopicRecreatedError(topic)
        elif end > expected:
            self._error = UnreadRecordsError(topic, expected, end)

    def are_all_reported(self) -> bool:
        """Return True if all records of the transaction were written at their expected offsets.

        Only the last record of each call of `expect_records` is reported. If an earlier record was not written, the
        last record has a lower offset than expected.
        """
        return self._error is None and not any(self._unreported_counts.values())

    def raise_if_misplaced(self) -> None:
        """Raise `TopicRecreatedError` or `UnreadRecordsError` if a record did not get its expected offset."""
        if self._error is not None:
            raise self._error

    def complete_transaction(self, is_committed: bool = True) -> None:
        """Register that the transaction is committed or aborted. In each log, a transaction marker follows the
        records.
        """
        for topic in self._reported_topics:
            self._next_offsets[topic] = self._reported_ends[topic] + 1
            if is_committed:
                self._committed_topics.add(topic)

    def unproven_topics(self) -> list[str]:
        """Return the topics that were read and have no committed record of this writer: their ends may be outdated."""
        return [topic for topic in self._next_offsets if topic not in self._committed_topics]

    def reported_end(self, topic: str) -> int | None:
        """Return a lower bound of the log's end: the offset after the last reported record, or else the end up to which
        the log was read. Return None if neither is known.
        """
        return self._reported_ends.get(topic)

    def last_record(self, topic: str) -> Record | None:
        """Return the record before `reported_end`; None if no record of this writer was reported yet."""
        return self._last_records.get(topic)
