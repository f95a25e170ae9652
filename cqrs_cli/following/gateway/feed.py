"""The newest events of an aggregate in memory, for streams: each is at a place of its own and takes what comes next.

A stream that reads slowly holds nothing but its place. One that is further back than memory reads the topic.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

#: Bytes of events that are kept for each partition; an event of any size is kept until the next ones.
_KEPT_BYTES = 8 * 1024 * 1024


#: Bytes of events that a stream takes at once: a connection keeps in memory what its client does not take.
_PAGE_BYTES = 256 * 1024


class FeedEvent(NamedTuple):
    """An event as streams give it: `text` is its CloudEvent."""

    partition: int
    offset: int
    subject: str
    type: str
    text: str


class Feed:
    """The newest events of each partition. One thread adds, others take."""

    def __init__(self, starts: Mapping[int, int], kept_bytes: int = _KEPT_BYTES) -> None:
        """`starts`: the offset from which on each partition is followed."""
        self._lock = threading.Lock()
        self._kept_bytes = kept_bytes
        self._starts = dict(starts)  # everything from here on is in memory
        self._ends = dict(starts)
        self._events: dict[int, deque[FeedEvent]] = {partition: deque() for partition in starts}
        self._bytes = dict.fromkeys(starts, 0)

    def begin(self, partition: int, start: int) -> None:
        """Follow one more partition, from this offset on."""
        with self._lock:
            self._events[partition], self._bytes[partition] = deque(), 0
            self._starts[partition] = self._ends[partition] = start

    @property
    def ends(self) -> dict[int, int]:
        """The offset of each partition that comes next."""
        with self._lock:
            return dict(self._ends)

    def add(self, event: FeedEvent) -> None:
        """Keep the next event of its partition, and forget old ones that there is no more room for."""
        number = event.partition
        with self._lock:
            kept = self._events[number]
            kept.append(event)
            self._ends[number] = event.offset + 1
            self._bytes[number] += len(event.text)
            while self._bytes[number] > self._kept_bytes and len(kept) > 1:
                old = kept.popleft()
                self._bytes[number] -= len(old.text)
                self._starts[number] = old.offset + 1

    def after(self, partition: int, position: int, most: int) -> list[FeedEvent] | None:
        """Up to `most` events from this offset on, and no more than a page's bytes; None if memory does not reach back
        to it.
        """
        with self._lock:
            if position < self._starts[partition]:
                return None
            kept = self._events[partition]
            if position >= self._ends[partition]:
                return []
            first = bisect_left(kept, position, key=lambda event: event.offset)
            return page(kept[at] for at in range(first, min(len(kept), first + most)))


def page(events: Iterable[FeedEvent]) -> list[FeedEvent]:
    """The first events, as many as a stream takes at once: one at least."""
    taken: list[FeedEvent] = []
    size = 0
    for event in events:
        size += len(event.text)
        if taken and size > _PAGE_BYTES:
            break
        taken.append(event)
    return taken
