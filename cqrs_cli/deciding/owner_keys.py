"""The keys of one partition, as its owner has them: to encrypt records that it writes, and to decrypt records that it
folds.

The owner reads the keys up to the high watermark before it folds anything, and it knows the keys that it commits
itself. So a value under another key than the key in force is erased, and is read as a redacted value. An `Erased` that
names the missing key must then follow; if none follows, the key was lost (`check_all_resolved`).
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
from cqrs_cli.core.personal.encrypted_data import (
    decrypt_data,
    encrypt_with_key_of,
    may_look_encrypted,
)
from cqrs_cli.core.personal.encryption import STATE, DataKey, ValueLocation
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.topics.partitioner import KeyHome
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.partition_keys import KeysLog, key_records
from cqrs_cli.keys.topic import KeyTable, WrappedKey, key_value
from cqrs_cli.state.key_cache import EndedKey, KeyChange, KeyOffsets, KeyRecord, KeyStore, apply_change

#: Keys that are kept unwrapped in memory: a kilobyte each.
READY = 10_000


class OwnerKeys:
    """The keys that are known on disk, and the committed changes of a batch that are not on disk yet."""

    def __init__(
        self,
        aggregate: Aggregate,
        log: KeysLog,
        partition: int,
        ring: Keyring,
        known: KeyStore,
        ready: int = READY,
    ) -> None:
        """`partition`: of the keys topic. `ready`: most keys that are kept unwrapped."""
        self._aggregate, self._log, self.partition = aggregate, log, partition
        self._ring, self._kept = ring, known
        self._most = ready
        self._ready: OrderedDict[str, DataKey | None] = OrderedDict()
        self._changes: list[KeyChange] = []
        self._changed: dict[str, KeyTable] = {}
        self._wrapped: dict[str, WrappedKey | None] = {}  # keys of the batch that is being written
        self.read = 0  # next offset in the keys topic
        self._newest_master = ""  # the KEK of the newest key that was read
        self._learnt = 0  # end of the keys topic when the partition was taken over
        self._is_level = self._is_forgiving = False
        self.unresolved_keys: dict[
            str, str
        ] = {}  # unresolved keys, key id → subject: no `Erased` has named them yet

    @property
    def log_name(self) -> str:
        """The name of the keys log, for messages."""
        return f"{self._log.topic} partition {self.partition}"

    def forget(self) -> None:
        """Remove the keys on disk, so that the next `read_keys` reads all of them again."""
        self._kept.clear()

    def read_keys(self, noted: int, keeps: KeyHome | None = None, afresh: bool = False) -> None:
        """Read the keys up to their high watermark. Request the end of the events first.

        `noted`: the offset of the events up to which the shard knows changes of keys. A cache that has seen fewer
        events may be from before an erasure: it is dropped, and read again as a whole, in one pass. `keeps`: the filter
        for the owner's keys after a repartitioning; this owner would not see the erasure of other keys. A filtered
        cache that has seen no events is dropped, too, because an erasure may be in the parents' logs. `afresh`: drop
        the cache in any case.
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
            self._kept.clear()
        before = self._kept.offsets
        self.read = before.keys
        start, end = self._log.bounds(self.partition)
        self._log.close()  # a client has eight descriptors, and reading opens another client
        if before.keys > end:
            raise ContradictionError(
                f"{self.log_name} ends at {end}, before the {before.keys} that was already read",
                "the topic was truncated or replaced: restore it before anything is decided",
            )
        for records in self._log.read(self.partition, max(before.keys, start), end):
            ours = records if keeps is None else keeps.matching(records)
            self._changes = [KeyRecord(*one) for one in key_records(self._log.topic, self.partition, ours)]
            self._newest_master = next(
                (
                    one.wrapped.master
                    for one in reversed(self._changes)
                    if isinstance(one, KeyRecord) and one.wrapped
                ),
                self._newest_master,
            )
            self.read = records[-1].offset + 1
            self._write(before.events)
        self.read = self._learnt = end
        self._write(noted)
        if self._newest_master:  # the KEK of the active run: a standby must have it before it takes over
            self._ring.check_keks(self._log.topic, [self._newest_master])

    def check_all_resolved(self, events: int, accepted: bool = False) -> None:
        """Record that all events are folded; raises `ContradictionError` for a missing key that was not erased.

        `accepted`: an operator has accepted a loss of events, which may include the erasures.
        """
        self._is_forgiving = accepted
        if accepted:
            self.unresolved_keys.clear()
        if self.unresolved_keys:
            raise self._lost(*next(iter(self.unresolved_keys.items())))
        self._is_level = True
        self._write(events)

    def key_of(self, subject: str) -> DataKey | None:
        """Return the key in force, or None; raises `ContradictionError` if the keyring cannot unwrap the key."""
        try:
            return self._ready[subject]
        except KeyError:
            pass
        wrapped = self._known(subject).current
        key = None if wrapped is None else self._ring.unwrap(self._log.topic, subject, wrapped)
        self._make_ready(subject, key)
        return key

    def decrypt_event(self, event: EventEnvelope) -> EventEnvelope:
        """Return an event of the log with its encrypted members decrypted or redacted. An `Erased` ends its key.

        Raises `SealError` for a value that cannot be decrypted, `FoldError` for an `Erased` that cannot be read.
        """
        if event.type == ERASED:
            erased = decode_event(self._aggregate, event)
            assert isinstance(erased, Erased)
            self._end(event.subject, erased.key)
            return event
        data = bytes(event.data)
        if not may_look_encrypted(data):
            return event
        cls, find = self._aggregate.events.get(event.type), partial(self._find, event.subject)
        place = ValueLocation(self._aggregate.name, event.subject, event.id, "")
        return replace(event, data=Raw(decrypt_data(cls, data, find, place)))

    def open_state(self, subject: str, data: bytes) -> bytes:
        """Return the JSON of a state from the shard, decrypted; raises `SealError`."""
        if not may_look_encrypted(data):
            return data
        place = ValueLocation(self._aggregate.name, subject, STATE, "")
        return decrypt_data(self._aggregate.state, data, partial(self._find, subject), place)

    def seal_state(self, subject: str, data: bytes) -> bytes:
        """Return the JSON of a state as the shard stores it, encrypted.

        Without a key in force, the personal fields contain nothing personal, because no remaining event contains a
        personal value.
        """
        return encrypt_with_key_of(
            self._aggregate.state, data, self.key_of, (self._aggregate.name, subject, STATE, "")
        )

    def records(self, keys: Mapping[str, DataKey | None]) -> list[tuple[bytes | None, bytes]]:
        """Return the records (value, subject) of the keys that a batch has changed."""
        wrap, topic = self._ring.wrap, self._log.topic
        self._wrapped = {one: None if key is None else wrap(topic, one, key) for one, key in keys.items()}
        return [(key_value(wrapped), subject.encode()) for subject, wrapped in self._wrapped.items()]

    def stage(self, keys: Mapping[str, DataKey | None], read: int | None) -> None:
        """Keep keys whose `records` were just committed, never earlier. `read`: the offset after the records."""
        for subject, key in keys.items():
            known = self._changed[subject] = self._known(subject)  # read only once
            before = known.current
            if before is not None and (key is None or key.kid != before.kid):
                self._end(subject, before.kid)
            self._note(KeyRecord(subject, self._wrapped[subject]))
            self._make_ready(subject, key)
        self.read = max(self.read, read or 0)

    def flush(self, events: int) -> bool:
        """Write the changes of keys up to this offset of the events to disk, before the shard changes. Return True if
        there were any.

        Raises `NotOwnerError` if another owner has written to the key cache.
        """
        if not self._changes:
            return False
        self._write(events)
        return True

    def subjects_under_old_keks(self) -> Iterator[list[str]]:
        """Yield lists of subjects with a key record under an older KEK of the keyring, as far as the topic was read at
        the takeover.
        """
        current = self._ring.current
        start, _ = self._log.bounds(self.partition) if len(self._ring.names) > 1 else (self._learnt, None)
        for records in self._log.read(self.partition, start, self._learnt):
            found = key_records(self._log.topic, self.partition, records)
            yield [subject for subject, one in found if one is not None and one.master != current]
        self._log.close()

    def outdated(self, subjects: Iterable[str]) -> dict[str, DataKey]:
        """Return the keys in force of these subjects that are under an older KEK, as this owner knows them now."""
        known = {one: self._known(one).current for one in subjects}
        old = [one for one, wrapped in known.items() if wrapped and wrapped.master != self._ring.current]
        return {one: key for one in old if (key := self.key_of(one)) is not None}

    def _find(self, subject: str, kid: str) -> DataKey | None:
        key = self.key_of(subject)
        if key is not None and key.kid == kid:
            return key
        if kid not in self._known(subject).ended:
            if not self._is_level:
                self.unresolved_keys[kid] = subject
            elif not self._is_forgiving:
                raise self._lost(kid, subject)
        return None

    def _lost(self, kid: str, subject: str) -> ContradictionError:
        return ContradictionError(
            f"key {kid} of {self._aggregate.name} {subject!r} is not in {self.log_name}, and nobody erased it",
            "restore the topic's records before anything is decided: what is sealed with the key is lost without it",
        )

    def _end(self, subject: str, kid: str) -> None:
        self.unresolved_keys.pop(kid, None)
        if kid not in self._known(subject).ended:
            self._note(EndedKey(subject, kid))

    def _known(self, subject: str) -> KeyTable:
        return self._changed.get(subject) or self._kept.keys_of(subject)

    def _note(self, change: KeyChange) -> None:
        self._changed[change.subject] = apply_change(self._known(change.subject), change)
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
