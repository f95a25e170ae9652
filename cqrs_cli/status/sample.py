"""Reads the newest records of a partition at each poll, for the age of waiting commands, the latency, and the reasons
of rejections.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf

from confluent_kafka import Consumer
from msgspec import UNSET
from msgspec.structs import replace

from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.range_reader import read_ranges
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.status.partition import PartitionStatus

#: The maximum number of outcomes that a poll reads from a partition, for the reasons and the latency.
MAX_OUTCOMES = 500

#: Timeout in seconds for reading; it is short, because the records only add details to the display.
_READ_TIMEOUT = 2.0


class Sampler:
    """Adds details from the newest records to the partitions of one aggregate."""

    def __init__(self, connection: Connection, topics: Topics, max_partitions: float = inf) -> None:
        """`max_partitions`: the number of partitions that are read at each poll, in turns."""
        self._connection, self._topics, self._max_partitions = connection, topics, max_partitions
        self._turn = 0  # the number of the partition with which the next poll begins
        self._last_commands: dict[int, int] = {}  # partition → commands decided, at its previous turn
        self._outcome_ends: dict[int, int] = {}  # partition → end of its outcomes at the previous poll
        # Partition → position, and the timestamp (ms) of the command at the position.
        self._oldest_undecided: dict[int, tuple[int, int | None]] = {}

    def with_details(
        self, statuses: list[PartitionStatus], reader: Consumer, stable_ends: Mapping[int, int]
    ) -> list[PartitionStatus]:
        """Return the statuses, with details of the partitions that have lag or new decisions. If these are more than
        `max_partitions`, each poll continues after the last partition of the previous poll.
        """
        active_partitions = [status.partition for status in statuses if self._is_active(status)]
        if len(active_partitions) > self._max_partitions:
            count = int(self._max_partitions)
            start = next((index for index, number in enumerate(active_partitions) if number >= self._turn), 0)
            active_partitions = (active_partitions[start:] + active_partitions[:start])[:count]
            self._turn = active_partitions[-1] + 1
        chosen_partitions = set(active_partitions)
        chosen = [status for status in statuses if status.partition in chosen_partitions]
        detailed = {status.partition: status for status in self._with_records(chosen, reader, stable_ends)}
        return [detailed.get(status.partition) or self._with_known_age(status) for status in statuses]

    def _with_known_age(self, status: PartitionStatus) -> PartitionStatus:
        """Return the status with the age of its oldest waiting command, if an earlier poll has read the command."""
        if not status.lag:
            return status
        position, timestamp = self._oldest_undecided.get(status.partition, (-1, None))
        return _with_age(status, timestamp) if position == _position_of(status) else status

    def _is_active(self, status: PartitionStatus) -> bool:
        commands = 0 if status.counts is None else status.counts.commands
        return bool(status.lag) or commands != self._last_commands.get(status.partition)

    def _with_records(
        self, statuses: list[PartitionStatus], reader: Consumer, stable_ends: Mapping[int, int]
    ) -> Iterator[PartitionStatus]:
        """Yield the statuses with details. `reader` sees committed records only; `stable_ends` are the last stable
        offsets of the commands. Raises the errors of `read_ranges`.
        """
        outcomes = self._new_outcomes(reader, [status.partition for status in statuses])
        oldest_timestamps = self._oldest_timestamps(reader, statuses, stable_ends)
        for status in statuses:
            partition = status.partition
            self._last_commands[partition] = 0 if status.counts is None else status.counts.commands
            yield _with_details(status, outcomes[partition], oldest_timestamps.get(partition))

    def _new_outcomes(self, reader: Consumer, partitions: list[int]) -> dict[int, list[Record]]:
        """Return the newest outcomes of each partition since its previous poll; an empty list at the first poll."""
        topic, ranges = self._topics.outcomes, dict[int, tuple[int, int]]()
        for partition, (start, end) in readers.all_watermarks(reader, topic, partitions).items():
            previous_end, self._outcome_ends[partition] = self._outcome_ends.get(partition, end), end
            ranges[partition] = max(start, previous_end, end - MAX_OUTCOMES), end
        return read_ranges(self._connection, reader, topic, ranges, _READ_TIMEOUT)

    def _oldest_timestamps(
        self, reader: Consumer, statuses: list[PartitionStatus], stable_ends: Mapping[int, int]
    ) -> dict[int, int | None]:
        """Return the timestamp (ms) of the oldest waiting command of each partition with lag. Cached by position."""
        positions = {status.partition: _position_of(status) for status in statuses if status.lag}
        ranges = {
            partition: (position, min(stable_ends[partition], position + 10))
            for partition, position in positions.items()
            if self._oldest_undecided.get(partition, (-1, None))[0] != position
            or self._oldest_undecided[partition][1] is None
        }
        commands = read_ranges(self._connection, reader, self._topics.commands, ranges, _READ_TIMEOUT)
        for partition, records in commands.items():
            timestamp = records[0].timestamp if records else None
            self._oldest_undecided[partition] = positions[partition], timestamp
        return {partition: self._oldest_undecided[partition][1] for partition in positions}


def _position_of(status: PartitionStatus) -> int:
    """Return the offset of the first undecided command in the log."""
    return max(status.start or 0, status.position or 0)


def _with_details(
    status: PartitionStatus, outcomes: list[Record], oldest_timestamp: int | None
) -> PartitionStatus:
    reasons: Counter[str] = Counter()
    # The timestamp (ms) of the last decided command; its outcome has this timestamp, too.
    append_time: int | None = None
    for record in outcomes:
        try:
            outcome = read_outcome(record.value).data
        except ValueError:
            continue
        if outcome.reason is not UNSET:
            reasons[outcome.reason if outcome.code is UNSET else outcome.code] += 1
        if outcome.offset < _position_of(status):
            append_time = record.timestamp
    last_commit_time = 0 if status.counts is None else status.counts.last
    latency = None
    if append_time is not None and last_commit_time:
        latency = max(0, last_commit_time - append_time)
    return replace(_with_age(status, oldest_timestamp), reasons=reasons, latency_ms=latency)


def _with_age(status: PartitionStatus, timestamp: int | None) -> PartitionStatus:
    """Return the status with the timestamp (ms) of its oldest waiting command."""
    age = None if timestamp is None else max(0, time.time_ns() // 1_000_000 - timestamp)
    return replace(status, oldest_timestamp=timestamp, oldest_age_ms=age)
