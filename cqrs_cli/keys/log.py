"""The keys topic as a log: owners and readers read its records through this module."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.topic import WrappedKey, read_key


class KeysLog(Protocol):
    """Access to the keys topic and the events topic of an aggregate, for readers of keys."""

    topic: str  # the keys topic

    def partition_count(self) -> int:
        """Return the number of partitions of the keys topic, which never changes; raises an error if the topic is
        missing.
        """

    def end_of_events(self, partition: int) -> int:
        """Return the last stable offset of a partition of the events."""

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the log start and the high watermark of a partition of the keys topic."""

    def read(self, partition: int, start: int, end: int) -> Iterable[list[Record]]:
        """Yield all committed records of the keys topic from `start` to before `end`. Waits for open transactions."""

    def close(self) -> None: ...


class EventsLog(KeysLog, Protocol):
    """Access for readers of events, which also search the events for an `Erased` of a missing key."""

    def event_partitions(self) -> int:
        """Return the current number of partitions of the events topic."""
        ...

    def events_from(self, partition: int, start: int) -> Iterable[list[Record]]:
        """Yield all committed events from `start` to the high watermark. Waits for open transactions."""
        ...


def key_bounds(log: KeysLog, partition: int, next_offset: int) -> tuple[int, int]:
    """Return the log start and the high watermark of a partition of the keys topic.

    Raises `ContradictionError` if the topic ends before `next_offset`, the next offset to read: then keys that the
    caller has read are lost, not erased.
    """
    start, end = log.bounds(partition)
    if end < next_offset:
        raise ContradictionError(
            f"{log.topic} partition {partition} ends at {end}, but was already read up to {next_offset}",
            "the topic was truncated or replaced: restore it before anything is decided or read with its keys",
        )
    return start, end


def key_records(
    topic: str, partition: int, records: Iterable[Record]
) -> Iterator[tuple[str, WrappedKey | None]]:
    """Yield the result of `key_record` for each record."""
    return (key_record(topic, partition, record) for record in records)


def key_record(topic: str, partition: int, record: Record) -> tuple[str, WrappedKey | None]:
    """Return a record's subject and its encrypted key. The key is None for a tombstone. Raises `ContradictionError` for
    an invalid record.
    """
    try:
        return (record.key or b"").decode(), read_key(record.value)
    except ValueError as error:
        raise ContradictionError(
            f"{topic} partition {partition} offset {record.offset} is not a key: {error}",
            "only owners may write to this topic: find out which client wrote the record",
        ) from None
