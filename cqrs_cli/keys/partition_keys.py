"""The keys of a reader: the data keys of one partition of a keys topic, in memory. It writes nothing to disk."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from msgspec import Struct

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.topic import KeyTable, Reading, WrappedKey, read_key

#: Limit of the cache of decrypted data keys, which is emptied when it is full.
_MOST_AT_HAND = 10_000

#: Age in seconds from which keys are read from the start again: compaction may have removed a tombstone by then. The
#: keys topic keeps a tombstone for a day (`delete.retention.ms`).
_REREAD_AFTER = 3600.0

_NOTHING = KeyTable()


class KeysLog(Protocol):
    """Access to the keys topic and the events topic of an aggregate, for readers of keys."""

    topic: str  # the keys topic

    def partition_count(self) -> int:
        """Return the number of partitions of the keys topic, which never changes; raises an error without a topic."""

    def end_of_events(self, partition: int) -> int:
        """Return the last stable offset of a partition of the events."""

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the log start and the high watermark of a partition of the keys."""

    def read(self, partition: int, start: int, end: int) -> Iterable[list[Record]]:
        """Yield all committed keys from `start` to `end`. Waits for open transactions."""

    def close(self) -> None: ...


class EventsLog(KeysLog, Protocol):
    """Access for readers of events, which also search the events for an `Erased` of a missing key."""

    def event_partitions(self) -> int:
        """Return the current number of partitions of the events topic."""
        ...

    def events_from(self, partition: int, start: int) -> Iterable[list[Record]]:
        """Yield all committed events from `start` to the high watermark. Waits for open transactions."""
        ...


class KeyUse(Struct, frozen=True):
    """An encrypted value that was read: its subject, the id of its key, and the offset of its event."""

    subject: str
    kid: str
    offset: int


class UnresolvedKey(NamedTuple):
    """An encrypted value whose key is gone: erased if a later `Erased` names the key; otherwise the key is lost."""

    subject: str
    partition: int  # of the events
    offset: int


class PartitionKeys:
    """The keys in one partition of the keys topic, read on demand.

    `only`: the only aggregate id whose keys count; None for all. `max_age`: seconds after which known keys are read
    again before use; None for a reader that moves forward, because it reads the `Erased` of each key that it knows.
    `clock`: wall-clock time in seconds, because a monotonic clock may stop while the machine is suspended.
    """

    def __init__(
        self,
        log: KeysLog,
        partition: int,
        only: str | None = None,
        max_age: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._log, self._partition, self._only = log, partition, only
        self._max_age, self._clock = max_age, clock
        self._read_at = 0.0  # the time of the last read
        self._known: dict[str, KeyTable] = {}
        self._at_hand: dict[str, DataKey] = {}
        self._read = 0  # the offset up to which the keys were read
        self._end: int | None = None  # their high watermark at the last request
        self._seen: dict[int, int] = {}  # earlier events were committed before then
        #: Unresolved keys by key id: the key is gone, and no `Erased` has named it yet.
        self.doubts: dict[str, UnresolvedKey] = {}

    def end_key(self, subject: str, kid: str) -> None:
        """Drop a key that an `Erased` names, and never use it again."""
        self._known[subject] = self._known.get(subject, _NOTHING).with_erased(kid)
        self._at_hand.pop(kid, None)
        self.doubts.pop(kid, None)

    def learn(self, events: int, needs: list[KeyUse]) -> None:
        """Read more keys if one of these values, in the partition `events`, cannot be classified yet.

        All events that are committed when the end of the keys is requested count as seen, so a replay requests it once.

        Raises `ContradictionError` if the topic has no record: compaction leaves at least one, so these keys were lost.
        """
        if needs:
            self._refresh()
        unknown = [need for need in needs if self._reading(events, need) == "wait"]
        if not unknown:
            return
        seen = max(self._log.end_of_events(events), *(need.offset + 1 for need in needs))
        if not self.read_on():
            raise self._lost(unknown[0])
        self._seen[events] = seen

    def _refresh(self) -> None:
        """Drop the keys that were erased since the last read, if that is older than `max_age`."""
        if self._max_age is None or self._end is None:
            return
        age = self._clock() - self._read_at
        if 0 <= age < _REREAD_AFTER:
            if age >= self._max_age:
                self.read_on()
            return
        self._known = {subject: KeyTable(ended=table.ended) for subject, table in self._known.items()}
        self._at_hand.clear()
        self._seen.clear()
        self._read, self._end = 0, None

    def read_on(self) -> bool:
        """Read the keys up to their current end; return False if there is no record at all.

        Raises `ContradictionError` if the topic ends before the offset that was read: then keys were lost, not erased.
        """
        self._read_at = self._clock()
        start, end = self._log.bounds(self._partition)
        if end < self._read:
            raise ContradictionError(
                f"{self._log.topic} partition {self._partition} ends at {end}, before the {self._read} that was read",
                "the topic was truncated or replaced: restore it before anything is read by its keys",
            )
        for records in self._log.read(self._partition, max(start, self._read), end):
            for subject, wrapped in self._records(records):
                before = self._known.get(subject, _NOTHING)
                self._known[subject] = after = before.with_record(wrapped)
                if before.current is not None and after.is_over(before.current.kid):
                    self._at_hand.pop(before.current.kid, None)
        self._read = self._end = end
        return start < end

    def find(self, ring: Keyring, events: int, need: KeyUse) -> DataKey | None:
        """Return the data key of a value; None if the key is gone. Call it after `learn`."""
        reading = self._reading(events, need)
        assert reading != "wait"
        if reading == "erased":
            if need.kid not in self._known.get(need.subject, _NOTHING).ended:
                self.doubts[need.kid] = UnresolvedKey(need.subject, events, need.offset)
            return None
        return self._at_hand.get(need.kid) or self.in_force(ring, need.subject)

    def wrapped(self, subject: str) -> WrappedKey | None:
        """Return the encrypted data key of an aggregate, as far as the keys were read; None if it has no key."""
        return self._known.get(subject, _NOTHING).current

    def in_force(self, ring: Keyring, subject: str) -> DataKey | None:
        """Return the data key of an aggregate, as far as the keys were read; None if it has no key."""
        wrapped = self.wrapped(subject)
        if wrapped is None:
            return None
        if len(self._at_hand) >= _MOST_AT_HAND:
            self._at_hand.clear()
        key = self._at_hand[wrapped.kid] = ring.unwrap(self._log.topic, subject, wrapped)
        return key

    def doubtful_offsets(self) -> dict[int, int]:
        """Return the first offset of a value with an unresolved key, by partition of the events."""
        found = dict[int, int]()
        for doubt in self.doubts.values():
            found[doubt.partition] = min(doubt.offset, found.get(doubt.partition, doubt.offset))
        return found

    def check_doubts(self) -> None:
        """Raise `ContradictionError` for the first unresolved key."""
        for kid, doubt in self.doubts.items():
            raise ContradictionError(
                f"key {kid} of {doubt.subject!r} is not in {self._log.topic} partition {self._partition}, and nobody"
                " erased it",
                "restore its record; without the ring, all else can be read",
            )

    def _lost(self, need: KeyUse) -> ContradictionError:
        return ContradictionError(
            f"{self._log.topic} partition {self._partition} has no records, not even key {need.kid} of"
            f" {need.subject!r}, and nobody erased it",
            "the topic was emptied or made again: restore its records, or nothing personal can be read",
        )

    def _reading(self, events: int, need: KeyUse) -> Reading:
        """Return how to treat a value. An end of the keys from before the value was seen proves nothing."""
        end = self._end if need.offset < self._seen.get(events, 0) else None
        return self._known.get(need.subject, _NOTHING).reading(need.kid, self._read, end)

    def _records(self, records: Iterable[Record]) -> Iterator[tuple[str, WrappedKey | None]]:
        found = key_records(self._log.topic, self._partition, records)
        return ((subject, wrapped) for subject, wrapped in found if self._only in (None, subject))


def key_records(
    topic: str, partition: int, records: Iterable[Record]
) -> Iterator[tuple[str, WrappedKey | None]]:
    """Yield the result of `key_record` for each record."""
    return (key_record(topic, partition, record) for record in records)


def key_record(topic: str, partition: int, record: Record) -> tuple[str, WrappedKey | None]:
    """Return a record's subject and key, None for a tombstone; raises `ContradictionError` for an invalid record."""
    try:
        return (record.key or b"").decode(), read_key(record.value)
    except ValueError as error:
        raise ContradictionError(
            f"{topic} partition {partition} offset {record.offset} is not a key: {error}",
            "nobody but the owners may write there; find out who did",
        ) from None
