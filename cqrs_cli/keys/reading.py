"""The keys of readers: one partition of a keys topic, wrapped, in memory. Nothing of it rests on a disk."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from msgspec import Struct

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.sealing import DataKey
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.ring import Ring
from cqrs_cli.keys.topic import KnownKeys, Reading, WrappedKey, read_key

#: Keys that are kept unwrapped, those of the aggregates that were read last.
_MOST_AT_HAND = 10_000

_NOTHING = KnownKeys()


class KeysLog(Protocol):
    """The keys topic of an aggregate and its events topic, as far as readers of keys ask for them."""

    topic: str  # of the keys

    def partitions(self) -> int:
        """The number of partitions of the keys topic, the same for life; raises if there is none."""

    def end_of_events(self, partition: int) -> int:
        """The end of what is committed in a partition of the events."""

    def bounds(self, partition: int) -> tuple[int, int]:
        """The log start and the high watermark of a partition of the keys."""

    def read(self, partition: int, start: int, end: int) -> Iterable[list[Record]]:
        """All committed keys from `start` to `end`. Waits for transactions that are open."""

    def close(self) -> None: ...


class EventsLog(KeysLog, Protocol):
    """The same for readers of events, who also look for what ends a key."""

    def event_partitions(self) -> int:
        """The number of partitions of the events topic as it is now."""
        ...

    def events_from(self, partition: int, start: int) -> Iterable[list[Record]]:
        """All committed events from `start` to the high watermark. Waits for transactions that are open."""
        ...


class Need(Struct, frozen=True):
    """A sealed value that was seen: the key that it names, and the offset of its event."""

    subject: str
    kid: str
    offset: int


class Doubt(NamedTuple):
    """A value whose key is gone: it is erased if an `Erased` behind it names the key, and the key is lost otherwise."""

    subject: str
    partition: int  # of the events
    offset: int


class PartitionKeys:
    """The keys in one partition of the keys topic, read as far as somebody needs them.

    `only`: the one aggregate whose keys count; None for all.
    """

    def __init__(self, log: KeysLog, partition: int, only: str | None = None) -> None:
        self._log, self._partition, self._only = log, partition, only
        self._known: dict[str, KnownKeys] = {}
        self._at_hand: dict[str, DataKey] = {}
        self._read = 0  # the offset up to which the keys were read
        self._end: int | None = None  # their high watermark, as it was asked for last
        self._seen: dict[int, int] = {}  # events below these offsets had been committed before that
        #: By the ids of keys that are gone and that no `Erased` has named yet.
        self.doubts: dict[str, Doubt] = {}

    def end_key(self, subject: str, kid: str) -> None:
        """Drop a key that an `Erased` names, and refuse it from now on."""
        self._known[subject] = self._known.get(subject, _NOTHING).with_erased(kid)
        self._at_hand.pop(kid, None)
        self.doubts.pop(kid, None)

    def learn(self, events: int, needs: list[Need]) -> None:
        """Read on, if one of these values in a partition of the events cannot be judged yet.

        All that is committed there when the keys' end is asked for counts as seen: a replay asks once.

        Raises `ContradictionError` for a topic that has no record: compaction leaves one, so these keys were lost.
        """
        unknown = [need for need in needs if self._reading(events, need) == "wait"]
        if not unknown:
            return
        seen = max(self._log.end_of_events(events), *(need.offset + 1 for need in needs))
        if not self.read_on():
            raise self._lost(unknown[0])
        self._seen[events] = seen

    def read_on(self) -> bool:
        """Read the keys up to their end as it is now; false where there is no record at all.

        Raises `ContradictionError` for a topic that ends before what was read: keys that are gone were not erased.
        """
        start, end = self._log.bounds(self._partition)
        if end < self._read:
            raise ContradictionError(
                f"{self._log.topic} partition {self._partition} ends at {end}, before the {self._read} that was read",
                "the topic was truncated or replaced: restore it before anything is read by its keys",
            )
        for records in self._log.read(self._partition, max(start, self._read), end):
            for subject, wrapped in self._records(records):
                self._known[subject] = self._known.get(subject, _NOTHING).with_record(wrapped)
        self._read = self._end = end
        return start < end

    def find(self, ring: Ring, events: int, need: Need) -> DataKey | None:
        """The key of a value, None for one that is gone; after `learn`."""
        reading = self._reading(events, need)
        assert reading != "wait"
        if reading == "erased":
            if need.kid not in self._known.get(need.subject, _NOTHING).ended:
                self.doubts[need.kid] = Doubt(need.subject, events, need.offset)
            return None
        return self._at_hand.get(need.kid) or self.in_force(ring, need.subject)

    def in_force(self, ring: Ring, subject: str) -> DataKey | None:
        """The key of an aggregate, as far as the keys were read; None if it has none."""
        wrapped = self._known.get(subject, _NOTHING).current
        if wrapped is None:
            return None
        if len(self._at_hand) >= _MOST_AT_HAND:
            self._at_hand.clear()
        key = self._at_hand[wrapped.kid] = ring.unwrap(self._log.topic, subject, wrapped)
        return key

    def doubtful_offsets(self) -> dict[int, int]:
        """The first offset of a value whose key is in doubt, by partition of the events."""
        found = dict[int, int]()
        for doubt in self.doubts.values():
            found[doubt.partition] = min(doubt.offset, found.get(doubt.partition, doubt.offset))
        return found

    def check_doubts(self) -> None:
        """Raise `ContradictionError` for the first key that is still in doubt."""
        for kid, doubt in self.doubts.items():
            raise ContradictionError(
                f"key {kid} of {doubt.subject!r} is not in {self._log.topic} partition {self._partition}, and nobody"
                " erased it",
                "restore its record; without the ring, all else can be read",
            )

    def _lost(self, need: Need) -> ContradictionError:
        return ContradictionError(
            f"{self._log.topic} partition {self._partition} has no records, not even key {need.kid} of"
            f" {need.subject!r}, and nobody erased it",
            "the topic was emptied or made again: restore its records, or nothing personal can be read",
        )

    def _reading(self, events: int, need: Need) -> Reading:
        """The way to read a value. An end of the keys that was asked for before the value was seen says nothing."""
        end = self._end if need.offset < self._seen.get(events, 0) else None
        return self._known.get(need.subject, _NOTHING).reading(need.kid, self._read, end)

    def _records(self, records: Iterable[Record]) -> Iterator[tuple[str, WrappedKey | None]]:
        found = key_records(self._log.topic, self._partition, records)
        return ((subject, wrapped) for subject, wrapped in found if self._only in (None, subject))


def key_records(
    topic: str, partition: int, records: Iterable[Record]
) -> Iterator[tuple[str, WrappedKey | None]]:
    """Each record as `key_record` reads it."""
    return (key_record(topic, partition, record) for record in records)


def key_record(topic: str, partition: int, record: Record) -> tuple[str, WrappedKey | None]:
    """A record as the key of a subject from then on; raises `ContradictionError` if it is not a key."""
    try:
        return (record.key or b"").decode(), read_key(record.value)
    except ValueError as error:
        raise ContradictionError(
            f"{topic} partition {partition} offset {record.offset} is not a key: {error}",
            "nobody but the owners may write there; find out who did",
        ) from None
