"""Reads the newest records of a partition at each poll, for the age of waiting commands, the latency, and the reasons
of rejections.
"""

import time
from collections import Counter
from dataclasses import replace

from confluent_kafka import Consumer
from msgspec import UNSET

from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.status.partition import PartitionStatus

#: The maximum number of outcomes that a poll reads from a partition, for the reasons and the latency.
MAX_OUTCOMES = 500

#: Timeout in seconds for reading; it is short, because the records only add details to the display.
_READ_TIMEOUT = 2.0


class Sampler:
    """Adds details from the newest records to the partitions of one aggregate."""

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection, self._topics = connection, topics
        self._outcome_ends: dict[int, int] = {}  # partition → end of its outcomes at the previous poll
        # Partition → position, and the timestamp (ms) of the command at the position.
        self._oldest_undecided: dict[int, tuple[int, int | None]] = {}

    def add_details(self, status: PartitionStatus, reader: Consumer, stable_end: int) -> PartitionStatus:
        """Return the status with details. `reader` sees committed records only; `stable_end` is the last stable
        offset of the commands. Raises the errors of `readers.read_with`.
        """
        partition, position = status.partition, max(status.start or 0, status.position or 0)
        reasons: Counter[str] = Counter()
        # The timestamp (ms) of the last decided command; its outcome has this timestamp, too.
        append_time: int | None = None
        for record in self._new_outcomes(reader, partition):
            try:
                outcome = read_outcome(record.value).data
            except ValueError:
                continue
            if outcome.reason is not UNSET:
                reasons[outcome.reason if outcome.code is UNSET else outcome.code] += 1
            if outcome.offset < position:
                append_time = record.timestamp
        last_commit_time = 0 if status.counts is None else status.counts.last
        oldest_timestamp = self._oldest_timestamp(reader, status, position, stable_end)
        oldest_age = latency = None
        if oldest_timestamp is not None:
            oldest_age = max(0, time.time_ns() // 1_000_000 - oldest_timestamp)
        if append_time is not None and last_commit_time:
            latency = max(0, last_commit_time - append_time)
        return replace(status, reasons=reasons, oldest=oldest_age, latency=latency)

    def _new_outcomes(self, reader: Consumer, partition: int) -> list[Record]:
        """Return the newest outcomes since the previous poll; an empty list at the first poll."""
        topic = self._topics.outcomes
        start, end = readers.watermarks(reader, topic, partition)
        previous_end, self._outcome_ends[partition] = self._outcome_ends.get(partition, end), end
        return self._read(reader, topic, partition, max(start, previous_end, end - MAX_OUTCOMES), end)

    def _oldest_timestamp(
        self, reader: Consumer, status: PartitionStatus, position: int, stable_end: int
    ) -> int | None:
        """Return the timestamp (ms) of the oldest waiting command; None if no command waits. Cached by position."""
        if not status.lag:
            return None
        partition = status.partition
        cached = self._oldest_undecided.get(partition)
        if cached is None or cached[0] != position or cached[1] is None:
            records = self._read(
                reader, self._topics.commands, partition, position, min(stable_end, position + 10)
            )
            cached = position, records[0].timestamp if records else None
            self._oldest_undecided[partition] = cached
        return cached[1]

    def _read(self, reader: Consumer, topic: str, partition: int, start: int, end: int) -> list[Record]:
        if start >= end:
            return []
        batches = readers.read_with(
            self._connection, reader, topic, partition, start, end, timeout=_READ_TIMEOUT
        )
        try:
            return [record for batch in batches for record in batch]
        finally:
            reader.unassign()
