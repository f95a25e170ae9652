"""The event buffer of streams: the newest events of an aggregate, in memory.

Each stream has its own position, and reads the events from this position on. So a slow stream needs no buffer of its
own. A stream whose position is before the oldest buffered event reads the topic.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.messages.record import Record

#: Bytes of events that are buffered for each partition. A single larger event is kept until the next event arrives.
_BUFFER_BYTES = 8 * 1024 * 1024


#: Bytes of events that a stream reads at once (a page). The connection buffers a page until its client has received it.
_PAGE_BYTES = 256 * 1024


class _Head(msgspec.Struct):
    """The fields of an event by which streams select events."""

    subject: str = ""
    type: str = ""


_decode_head = msgspec.json.Decoder(_Head).decode


class StreamEvent(NamedTuple):
    """An event as streams send it."""

    partition: int
    offset: int
    subject: str
    type: str
    text: str  # the CloudEvent in JSON


def to_stream_event(partition: int, record: Record, aggregate: Aggregate | None = None) -> StreamEvent:
    """Convert a record of an events topic for the event buffer. With `aggregate`, its personal fields become null."""
    value = record.value or b""
    head = _decode_head(value)
    event_class = None if aggregate is None else aggregate.events.get(head.type)
    if aggregate is not None and event_class is not None and aggregate.personal.fields_of(event_class):
        members = read_members(value)
        data = aggregate.personal.nullify_data(event_class, bytes(members["data"]))
        value = write_members(members | {"data": Raw(data)})
    return StreamEvent(partition, record.offset, head.subject, head.type, value.decode())


class EventBuffer:
    """The newest events of each partition. One thread appends events, other threads read them."""

    def __init__(self, starts: Mapping[int, int], buffer_bytes: int = _BUFFER_BYTES) -> None:
        """`starts`: the first offset of each partition to follow."""
        self._lock = threading.Lock()
        self._buffer_bytes = buffer_bytes
        self._starts = dict(starts)  # partition → offset; this event and all later events are in memory
        self._ends = dict(starts)
        self._events: dict[int, deque[StreamEvent]] = {partition: deque() for partition in starts}
        self._bytes = dict.fromkeys(starts, 0)

    def add_partition(self, partition: int, start: int) -> None:
        """Start to buffer another partition from this offset."""
        with self._lock:
            self._events[partition], self._bytes[partition] = deque(), 0
            self._starts[partition] = self._ends[partition] = start

    @property
    def ends(self) -> dict[int, int]:
        """Partition → offset after the newest event."""
        with self._lock:
            return dict(self._ends)

    def append(self, event: StreamEvent) -> None:
        """Append the next event of its partition, and drop the oldest events if the partition's buffer is full."""
        partition = event.partition
        with self._lock:
            buffered = self._events[partition]
            buffered.append(event)
            self._ends[partition] = event.offset + 1
            self._bytes[partition] += len(event.text)
            while self._bytes[partition] > self._buffer_bytes and len(buffered) > 1:
                oldest = buffered.popleft()
                self._bytes[partition] -= len(oldest.text)
                self._starts[partition] = oldest.offset + 1

    def events_from(self, partition: int, position: int, limit: int) -> list[StreamEvent] | None:
        """Return up to `limit` events from offset `position` on, but at most `_PAGE_BYTES`.

        Return None if the event at `position` is no longer in memory.
        """
        with self._lock:
            if position < self._starts[partition]:
                return None
            buffered = self._events[partition]
            if position >= self._ends[partition]:
                return []
            first_index = bisect_left(buffered, position, key=lambda event: event.offset)
            return first_page(
                buffered[index] for index in range(first_index, min(len(buffered), first_index + limit))
            )


def first_page(events: Iterable[StreamEvent]) -> list[StreamEvent]:
    """Return the first events: at most `_PAGE_BYTES`, but at least one event."""
    page: list[StreamEvent] = []
    size = 0
    for event in events:
        size += len(event.text)
        if page and size > _PAGE_BYTES:
            break
        page.append(event)
    return page
