"""Opens the sealed members of events for readers: the one place between the log and all who read events.

Who has no ring, and who reads what is erased, gets placeholders. Owners do not read through this: they know all keys of
their partitions.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from operator import methodcaller
from typing import Any, NamedTuple

from msgspec.structs import replace

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.sealing import DataKey, SealError
from cqrs_cli.core.sealed_events import (
    EventMarks,
    MarkedEvent,
    masked_event,
    may_be_marked,
    open_event,
    read_marked,
)
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.address import KeyRingAddress, ring_at
from cqrs_cli.keys.reading import EventsLog, KeysLog, Need, PartitionKeys

_value: Callable[[Any], bytes | None] = methodcaller("value")


class OpenerKeys(NamedTuple):
    """The keys of readers: the ring, and the log of what it opens."""

    ring: KeyRingAddress
    log: EventsLog


class EventOpener:
    """Opens the events of one aggregate; for several threads. Nothing is asked before the first sealed member.

    An `Erased` counts from the batch on in which it stands. `marks`: None for an aggregate without personal fields.
    `keys`: None for who has no ring. `only`: the one aggregate that is read.
    """

    def __init__(
        self, topic: str, marks: EventMarks | None, keys: OpenerKeys | None = None, only: str | None = None
    ) -> None:
        self._topic, self._marks, self._keys, self._only = topic, marks, keys, only
        self._parts: dict[int, PartitionKeys] = {}  # by partition of the keys topic
        self._count = 0  # of these
        self._lock = threading.Lock()

    def opened(self, partition: int, records: list[Record]) -> list[Record]:
        """The events with their sealed members opened, or with placeholders for those whose key is gone.

        Raises `ContradictionError` for a member that its own key does not open, and what reading the keys raises.
        """
        if self._marks is None:
            return records
        read = ((number, read_marked(record.value)) for number, record in enumerate(records))
        marked = {number: event for number, event in read if event is not None}
        if not marked:
            return records
        opened = list(records)
        with self._lock:
            needs = {
                number: self._needs(partition, records[number], event) for number, event in marked.items()
            }
            known = self._learn(
                partition, marked.values(), [need for some in needs.values() for need in some]
            )
            for number, event in marked.items():
                keys = {need.kid: self._find(known, partition, need) for need in needs[number]}
                opened[number] = self._opened(partition, records[number], event, keys)
        return opened

    def batches(self, partition: int, batches: Iterable[list[Record]]) -> Iterator[list[Record]]:
        """The same for batches that follow each other."""
        for records in batches:
            yield self.opened(partition, records)

    def fill(self, partition: int, messages: Sequence[Any]) -> None:
        """The same for messages of librdkafka's, which get their values in their place."""
        if self._marks is None or not any(map(may_be_marked, map(_value, messages))):
            return
        records = [Record(one.offset(), 0, None, one.value()) for one in messages]
        for message, before, after in zip(messages, records, self.opened(partition, records), strict=True):
            if after is not before:
                message.set_value(after.value)

    def in_force(self, partition: int, subject: str) -> DataKey | None:
        """The key of an aggregate as it is now; None if it has none, and for who has no ring."""
        if self._marks is None or self._keys is None:
            return None
        with self._lock:
            known = self._part(self._keys.log, partition)
            known.read_on()
            return known.in_force(ring_at(self._keys.ring), subject)

    def conclude(self) -> None:
        """Raise `ContradictionError` for a key that was needed and is lost: it is gone, and no `Erased` ends it.

        Call it at the end of a reading. An `Erased` is committed together with the end of the key, behind all that it
        erases, so it is also looked for in the events that were not read.
        """
        with self._lock:
            for number, known in self._parts.items():
                if known.doubts:
                    self._look_ahead(known, number)
                    known.check_doubts()

    def close(self) -> None:
        """Let go of the keys. Idempotent."""
        self._parts.clear()
        if self._keys is not None:
            self._keys.log.close()

    def _needs(self, partition: int, record: Record, event: MarkedEvent) -> list[Need]:
        try:
            return [Need(event.subject, kid, record.offset) for kid in event.kids()]
        except ValueError as error:  # not the shape of a sealed value
            raise self._fault(partition, record, error) from None

    def _learn(
        self, partition: int, events: Iterable[MarkedEvent], needs: list[Need]
    ) -> PartitionKeys | None:
        """The keys, after what these events need or end; None for who has no ring, and where nothing was needed."""
        if self._keys is None or (not self._parts and not needs):
            return None
        known = self._part(self._keys.log, partition)
        self._end_keys(known, events)
        known.learn(partition, needs)
        return known

    def _end_keys(self, known: PartitionKeys, events: Iterable[MarkedEvent]) -> None:
        for event in events:
            with suppress(ValueError):  # who reads it refuses it
                if (kid := event.ends) is not None and self._only in (None, event.subject):
                    known.end_key(event.subject, kid)

    def _look_ahead(self, known: PartitionKeys, number: int) -> None:
        """Read the events that end the keys in doubt. Once a partition has grown, they may stand in its children."""
        assert self._keys is not None
        log, behind = self._keys.log, known.doubtful_offsets()
        for partition in range(number, log.event_partitions(), self._count):
            if partition < min(behind):
                continue
            for records in log.events_from(partition, behind.get(partition, 0)):
                self._end_keys(known, filter(None, (read_marked(record.value) for record in records)))

    def _part(self, log: KeysLog, partition: int) -> PartitionKeys:
        self._count = self._count or log.partitions()
        number = partition % self._count
        return self._parts.setdefault(number, PartitionKeys(log, number, self._only))

    def _find(self, known: PartitionKeys | None, partition: int, need: Need) -> DataKey | None:
        if known is None or self._keys is None or self._only not in (None, need.subject):
            return None
        return known.find(ring_at(self._keys.ring), partition, need)

    def _opened(
        self, partition: int, record: Record, event: MarkedEvent, keys: dict[str, DataKey | None]
    ) -> Record:
        if not keys or self._marks is None:
            return record
        try:
            return replace(
                record, value=open_event(self._marks, record.value or b"", event, keys.__getitem__)
            )
        except SealError as error:
            raise self._fault(partition, record, error) from None

    def _fault(self, partition: int, record: Record, error: ValueError) -> ContradictionError:
        return ContradictionError(
            f"{self._topic}:{partition}@{record.offset}: a personal field cannot be opened: {error}",
            "the record was altered or moved, or its key was: compare with a replica or a backup",
        )


class EventMasker:
    """Puts placeholders into the personal fields of events, for readers who want no values. It needs no key.

    Unlike an opener without a ring it masks also what was written before a field was marked. `marks`: None for an
    aggregate without personal fields.
    """

    def __init__(self, marks: EventMarks | None) -> None:
        self._marks = marks

    def opened(self, partition: int, records: list[Record]) -> list[Record]:
        """The events with placeholders."""
        marks = self._marks
        if marks is None:
            return records
        return [replace(one, value=masked_event(marks, one.value or b"")) for one in records]

    def batches(self, partition: int, batches: Iterable[list[Record]]) -> Iterator[list[Record]]:
        """The same for batches that follow each other."""
        for records in batches:
            yield self.opened(partition, records)

    def conclude(self) -> None:
        """No key was needed."""

    def close(self) -> None:
        """Nothing is held."""


#: The views that readers have of personal fields.
EventView = EventOpener | EventMasker
