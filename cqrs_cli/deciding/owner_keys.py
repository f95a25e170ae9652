"""The keys of one partition, as its owner has them: to seal what it writes, and to open what it folds.

They are read up to the high watermark before anything is folded, and an owner knows what it commits itself. So what is
sealed with another key than the one in force is erased, and reads as placeholders; an `Erased` that names the key must
then come. Where none does, the key was lost (`check_level`).
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from msgspec import Raw
from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.fold import decode_event
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.personal.sealed_data import (
    may_look_sealed,
    open_data,
    seal_needed,
)
from cqrs_cli.core.personal.sealing import STATE, DataKey, SealPlace
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.topics.partitioner import KeyHome
from cqrs_cli.keys.reading import KeysLog, key_records
from cqrs_cli.keys.ring import Ring
from cqrs_cli.keys.topic import KnownKeys, WrappedKey, key_value
from cqrs_cli.state.key_cache import EndedKey, KeyChange, KeyOffsets, KeyRecord, KeyStore, changed

#: Keys that are ready in memory: a kilobyte each.
READY = 10_000


class OwnerKeys:
    """The keys as they are known on disk, and what a batch has changed that is committed but not there yet."""

    def __init__(
        self,
        aggregate: Aggregate,
        log: KeysLog,
        partition: int,
        ring: Ring,
        known: KeyStore,
        ready: int = READY,
    ) -> None:
        """`partition`: of the keys topic. `ready`: the most keys that are kept unwrapped."""
        self._aggregate, self._log, self.partition = aggregate, log, partition
        self._ring, self._kept = ring, known
        self._most = ready
        self._ready: OrderedDict[str, DataKey | None] = OrderedDict()
        self._changes: list[KeyChange] = []
        self._changed: dict[str, KnownKeys] = {}
        self._wrapped: dict[str, WrappedKey | None] = {}  # those of the batch that is being written
        self.read = 0  # offset of the keys topic
        self._learnt = 0  # up to here it was read when the partition was taken over
        self._is_level = self._is_forgiving = False
        self.doubts: dict[str, str] = {}  # kid → subject: not in force, and no `Erased` has named it yet

    @property
    def place(self) -> str:
        """The log of the keys in messages."""
        return f"{self._log.topic} partition {self.partition}"

    def learn(self, noted: int, keeps: KeyHome | None = None, afresh: bool = False) -> None:
        """Read the keys up to their high watermark. Ask for the end of the events first.

        `noted`: up to where the shard knows the events that changed keys. A cache that has seen less is of before an
        erasure, perhaps: it is dropped, and read as a whole, in one go. `keeps`: the aggregates whose keys are kept,
        where partitions have grown; of others nobody here would see the end. A child without events begins afresh, too:
        an erasure may lie in its parents'.
        """
        try:
            self._learn(noted, keeps, afresh)
        finally:
            self._log.close()

    def _learn(self, noted: int, keeps: KeyHome | None, afresh: bool) -> None:
        self._is_level = False
        self._ready.clear()
        self._drop_changes()
        seen = self._kept.offsets.events
        if afresh or seen < noted or (keeps is not None and seen == 0):
            self._kept.forget()
        before = self._kept.offsets
        self.read = before.keys
        start, end = self._log.bounds(self.partition)
        self._log.close()  # a client has eight descriptors: reading has one of its own
        if before.keys > end:
            raise ContradictionError(
                f"{self.place} ends at {end}, before the {before.keys} that was already read",
                "the topic was truncated or replaced: restore it before anything is decided",
            )
        for records in self._log.read(self.partition, max(before.keys, start), end):
            ours = records if keeps is None else keeps.held(records)
            self._changes = [KeyRecord(*one) for one in key_records(self._log.topic, self.partition, ours)]
            self.read = records[-1].offset + 1
            self._write(before.events)
        self.read = self._learnt = end
        self._write(noted)

    def check_level(self, events: int, accepted: bool = False) -> None:
        """Note that all events are folded; raises `ContradictionError` for a key that is gone and was not erased.

        `accepted`: events were lost, and an operator has accepted that; the erasures may be among them.
        """
        self._is_forgiving = accepted
        if accepted:
            self.doubts.clear()
        if self.doubts:
            raise self._lost(*next(iter(self.doubts.items())))
        self._is_level = True
        self._write(events)

    def key_of(self, subject: str) -> DataKey | None:
        """The key in force; raises `ContradictionError` for one that the ring cannot unwrap."""
        try:
            return self._ready[subject]
        except KeyError:
            pass
        wrapped = self._known(subject).current
        key = None if wrapped is None else self._ring.unwrap(self._log.topic, subject, wrapped)
        self._make_ready(subject, key)
        return key

    def opened(self, event: EventEnvelope) -> EventEnvelope:
        """An event of the log with its sealed members opened, or their placeholders; an `Erased` ends its key.

        Raises `SealError` for one that does not open, `FoldError` for an `Erased` that cannot be read.
        """
        if event.type == ERASED:
            erased = decode_event(self._aggregate, event)
            assert isinstance(erased, Erased)
            self._end(event.subject, erased.key)
            return event
        data = bytes(event.data)
        if not may_look_sealed(data):
            return event
        cls, find = self._aggregate.events.get(event.type), partial(self._find, event.subject)
        place = SealPlace(self._aggregate.name, event.subject, event.id, "")
        return replace(event, data=Raw(open_data(cls, data, find, place)))

    def open_state(self, subject: str, data: bytes) -> bytes:
        """The JSON of a state from the shard, opened; raises `SealError`."""
        if not may_look_sealed(data):
            return data
        place = SealPlace(self._aggregate.name, subject, STATE, "")
        return open_data(self._aggregate.state, data, partial(self._find, subject), place)

    def seal_state(self, subject: str, data: bytes) -> bytes:
        """The JSON of a state as the shard has it.

        Without a key in force its personal fields hold nothing personal: no event that is left says it.
        """
        return seal_needed(
            self._aggregate.state, data, self.key_of, (self._aggregate.name, subject, STATE, "")
        )

    def records(self, keys: Mapping[str, DataKey | None]) -> list[tuple[bytes | None, bytes]]:
        """The records of the keys that a batch has changed: (value, subject)."""
        wrap, topic = self._ring.wrap, self._log.topic
        self._wrapped = {one: None if key is None else wrap(topic, one, key) for one, key in keys.items()}
        return [(key_value(wrapped), subject.encode()) for subject, wrapped in self._wrapped.items()]

    def stage(self, keys: Mapping[str, DataKey | None], read: int | None) -> None:
        """Keep the keys whose `records` were just committed, never earlier. `read`: the offset behind them."""
        for subject, key in keys.items():
            known = self._changed[subject] = self._known(subject)  # it is read once
            before = known.current
            if before is not None and (key is None or key.kid != before.kid):
                self._end(subject, before.kid)
            self._note(KeyRecord(subject, self._wrapped[subject]))
            self._make_ready(subject, key)
        self.read = max(self.read, read or 0)

    def flush(self, events: int) -> bool:
        """Put on disk what has changed up to this offset of the events, before the shard has it: true if anything has.

        Raises `NotOwnerError` if somebody else has written there.
        """
        if not self._changes:
            return False
        self._write(events)
        return True

    def suspects(self) -> Iterator[list[str]]:
        """The aggregates of which a record is under an older master key of the ring, as far as the topic was learnt."""
        current = self._ring.current
        start, _ = self._log.bounds(self.partition) if len(self._ring.names) > 1 else (self._learnt, None)
        for records in self._log.read(self.partition, start, self._learnt):
            found = key_records(self._log.topic, self.partition, records)
            yield [subject for subject, one in found if one is not None and one.master != current]
        self._log.close()

    def outdated(self, subjects: Iterable[str]) -> dict[str, DataKey]:
        """Their keys in force that are under an older master key, as this owner knows them now."""
        known = {one: self._known(one).current for one in subjects}
        old = [one for one, wrapped in known.items() if wrapped and wrapped.master != self._ring.current]
        return {one: key for one in old if (key := self.key_of(one)) is not None}

    def _find(self, subject: str, kid: str) -> DataKey | None:
        key = self.key_of(subject)
        if key is not None and key.kid == kid:
            return key
        if kid not in self._known(subject).ended:
            if not self._is_level:
                self.doubts[kid] = subject
            elif not self._is_forgiving:
                raise self._lost(kid, subject)
        return None

    def _lost(self, kid: str, subject: str) -> ContradictionError:
        return ContradictionError(
            f"key {kid} of {self._aggregate.name} {subject!r} is not in {self.place}, and nobody erased it",
            "restore the topic's records before anything is decided: what is sealed with the key is lost without it",
        )

    def _end(self, subject: str, kid: str) -> None:
        self.doubts.pop(kid, None)
        if kid not in self._known(subject).ended:
            self._note(EndedKey(subject, kid))

    def _known(self, subject: str) -> KnownKeys:
        return self._changed.get(subject) or self._kept.known(subject)

    def _note(self, change: KeyChange) -> None:
        self._changed[change.subject] = changed(self._known(change.subject), change)
        self._changes.append(change)
        self._ready.pop(change.subject, None)

    def _make_ready(self, subject: str, key: DataKey | None) -> None:
        self._ready[subject] = key
        if len(self._ready) > self._most:
            self._ready.popitem(last=False)

    def _write(self, events: int) -> None:
        before = self._kept.offsets
        end = KeyOffsets(before.topics, max(before.keys, self.read), max(before.events, events))
        if self._changes or end != before:
            self._kept.apply(before, end, self._changes)
        self._drop_changes()

    def _drop_changes(self) -> None:
        self._changes, self._changed = [], {}
