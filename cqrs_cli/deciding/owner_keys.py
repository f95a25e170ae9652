"""The data keys of one partition, for its owner: they encrypt the records that the owner writes, and decrypt the
records that the owner folds.

The owner reads the keys topic up to the high watermark before it folds anything, and it knows the keys that it commits.
So a value whose key is not the active key becomes a redacted value. Its key is *unresolved* until an `Erased` that
names the key is folded. If no such `Erased` follows, the key was lost (`check_all_resolved`).
"""

from collections.abc import Iterable, Iterator
from functools import partial

from msgspec import Raw
from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.context import ChangedKeys
from cqrs_cli.core.fold import decode_event
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.personal.encrypted_data import (
    decrypt_data,
    encrypt_with_key_of,
    may_look_encrypted,
)
from cqrs_cli.core.personal.encryption import STATE, DataKey, DecryptionError, ValueLocation
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.keys.decrypted_key_cache import MAX_KEYS, DecryptedKeyCache
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.log import KeysLog, key_bounds, key_records
from cqrs_cli.keys.topic import COMPACTION_TICK, SubjectKeys, WrappedKey, key_value
from cqrs_cli.state.key_cache import ErasedKey, KeyChange, KeyOffsets, KeyRecord, KeyStore, apply_change


class OwnerKeys:
    """The keys in the key store, and committed changes of keys that are not in the key store yet."""

    def __init__(
        self,
        aggregate: Aggregate,
        log: KeysLog,
        partition: int,
        keyring: Keyring,
        key_store: KeyStore,
        max_decrypted: int = MAX_KEYS,
    ) -> None:
        """`partition`: the number of the partition of the keys topic. `key_store`: the keys on disk, or in memory if
        the run stores its state in memory. `max_decrypted`: the maximal number of decrypted keys in memory.
        """
        self._aggregate, self._log, self.partition = aggregate, log, partition
        self._keyring, self._key_store = keyring, key_store
        self._decrypted = DecryptedKeyCache(log.topic, self._known_keys, lambda: keyring, max_decrypted)
        #: Returns the active key of an aggregate, or None. Raises the errors of `DecryptedKeyCache.key_of`.
        self.key_of = self._decrypted.key_of
        self._changes: list[KeyChange] = []  # changes that are not in the key store yet
        self._changed_subjects: dict[str, SubjectKeys] = {}  # by subject: its keys after these changes
        #: Subject → the encrypted key of a key change in the current batch; None for an erased key.
        self._wrapped: dict[str, WrappedKey | None] = {}
        self.next_offset = 0  # the next offset of the keys topic
        self._newest_kek = ""  # the name of the KEK of the newest key that was read
        self._takeover_end = 0  # the end of the keys topic at the last `read_keys`
        self._is_resolved = False  # all events are folded, and no key is unresolved
        self._is_loss_accepted = False  # an operator accepted a loss, so missing keys are no error
        self.unresolved_keys: dict[str, str] = {}  # key id → subject

    @property
    def log_name(self) -> str:
        """The name of the keys log, for messages."""
        return f"{self._log.topic} partition {self.partition}"

    def clear_key_store(self) -> None:
        """Clear the key store, so that the next `read_keys` reads the whole keys topic."""
        self._key_store.clear()

    def read_keys(
        self, known_until: int, key_filter: KeyFilter | None = None, clears_store: bool = False
    ) -> None:
        """Read the keys topic up to its high watermark. The caller must have requested the end of the events before.

        `known_until`: an offset of the events, stored in the shard. The key store once contained the key changes of all
        events below this offset. If it contains fewer changes now, it may lack an erasure: it is cleared, and the whole
        keys topic is read. `key_filter`: after a repartitioning, it selects the subjects of this partition; the keys of
        other subjects are skipped, because this owner would not see their erasure. With a `key_filter`, a key store
        without events is cleared, too, because an erasure may be in the parents' logs. `clears_store`: clear the key
        store in any case.
        """
        try:
            self._read_keys(known_until, key_filter, clears_store)
        finally:
            self._log.close()

    def _read_keys(self, known_until: int, key_filter: KeyFilter | None, clears_store: bool) -> None:
        """Do the work of `read_keys`, which closes the log afterwards."""
        self._is_resolved = False
        self._decrypted.clear()
        self._drop_changes()
        stored_until = self._key_store.offsets.events
        if clears_store or stored_until < known_until or (key_filter is not None and stored_until == 0):
            self._key_store.clear()
        offsets = self._key_store.offsets
        self.next_offset = offsets.keys
        start, end = key_bounds(self._log, self.partition, offsets.keys)
        self._log.close()  # to save file descriptors: a client has eight, and `read` opens another client
        for records in self._log.read(self.partition, max(offsets.keys, start), end):
            own_records = records if key_filter is None else key_filter.matching(records)
            self._changes = [
                KeyRecord(*change) for change in key_records(self._log.topic, self.partition, own_records)
            ]
            self._newest_kek = next(
                (
                    change.wrapped.kek_name
                    for change in reversed(self._changes)
                    if isinstance(change, KeyRecord) and change.wrapped
                ),
                self._newest_kek,
            )
            self.next_offset = records[-1].offset + 1
            self._write(offsets.events)
        self.next_offset = self._takeover_end = end
        self._write(known_until)
        # The active run uses this KEK, so a standby run must have it before it takes over.
        if self._newest_kek:
            self._keyring.check_keks(self._log.topic, [self._newest_kek])

    def check_all_resolved(self, events: int, is_loss_accepted: bool = False) -> None:
        """Record that all events before the offset `events` are folded. Raises `ContradictionError` for an unresolved
        key: no `Erased` names it, so it was lost.

        `is_loss_accepted`: an operator has accepted a loss of events. The lost events may contain an `Erased`, so a
        missing key is no error.
        """
        self._is_loss_accepted = is_loss_accepted
        if is_loss_accepted:
            self.unresolved_keys.clear()
        if self.unresolved_keys:
            raise self._lost_key_error(*next(iter(self.unresolved_keys.items())))
        self._is_resolved = True
        self._write(events)

    def decrypt_event(self, event: EventEnvelope) -> EventEnvelope:
        """Return an event of the log with its encrypted members decrypted or redacted. If the event is an `Erased`,
        record that its key is erased.

        Raises `DecryptionError` for a value that cannot be decrypted, `FoldError` for an `Erased` that cannot be read.
        """
        if event.type == ERASED:
            erased = decode_event(self._aggregate, event)
            assert isinstance(erased, Erased)
            self._end_key(event.subject, erased.key)
            return event
        data = bytes(event.data)
        if not may_look_encrypted(data):
            return event
        cls, find_key = self._aggregate.events.get(event.type), partial(self._find_key, event.subject)
        location = ValueLocation(self._aggregate.name, event.subject, event.id, "")
        return replace(event, data=Raw(decrypt_data(cls, data, find_key, location)))

    def decrypt_state(self, subject: str, data: bytes) -> bytes:
        """Return the JSON of a state from the shard, decrypted; raises `ContradictionError` for a damaged state."""
        if not may_look_encrypted(data):
            return data
        location = ValueLocation(self._aggregate.name, subject, STATE, "")
        try:
            return decrypt_data(self._aggregate.state, data, partial(self._find_key, subject), location)
        except DecryptionError as error:
            raise ContradictionError(
                f"the state of {self._aggregate.name} {subject!r} is damaged: {error}",
                f"rebuild it from the events: cqrs rebuild {self._aggregate.name}",
            ) from error

    def encrypt_state(self, subject: str, data: bytes) -> bytes:
        """Return the JSON of a state with encrypted personal fields, as the shard stores it.

        If the subject has no active key, the fields stay unencrypted: no remaining event contains a personal value, so
        the state contains none.
        """
        return encrypt_with_key_of(
            self._aggregate.state, data, self.key_of, (self._aggregate.name, subject, STATE, "")
        )

    def records(self, keys: ChangedKeys) -> list[tuple[bytes | None, bytes]]:
        """Return the records, (value, subject), of keys that a batch has changed. Call `stage` after their commit."""
        wrap, topic = self._keyring.wrap, self._log.topic
        self._wrapped = {
            subject: None if key is None else wrap(topic, subject, key) for subject, key in keys.items()
        }
        return [(key_value(wrapped), subject.encode()) for subject, wrapped in self._wrapped.items()]

    def tick(self) -> list[tuple[bytes | None, bytes]]:
        """Return the record, (value, subject), that lets the broker compact the earlier records (`COMPACTION_TICK`)."""
        self._wrapped = {}
        return [COMPACTION_TICK]

    def stage(self, keys: ChangedKeys, end: int | None) -> None:
        """Record changed keys, after their `records` were committed to Kafka. `end`: the offset after these records in
        the keys topic; None if there are no records.
        """
        for subject, key in keys.items():
            known_keys = self._changed_subjects[subject] = self._known_keys(subject)  # one read of the store
            current = known_keys.current
            if current is not None and (key is None or key.kid != current.kid):
                self._end_key(subject, current.kid)
            self._record_change(KeyRecord(subject, self._wrapped[subject]))
            self._decrypted.put(subject, key)
        self.next_offset = max(self.next_offset, end or 0)

    def flush(self, events: int) -> bool:
        """Write the pending key changes to the key store. Call this before the events below the offset `events` are
        applied to the shard. Return True if there were changes.

        Raises `NotOwnerError` if another owner has written to the key store.
        """
        if not self._changes:
            return False
        self._write(events)
        return True

    def subjects_under_old_keks(self) -> Iterator[list[str]]:
        """Yield lists of subjects that have a key record under another KEK than the current KEK. A later record of the
        subject may already use the current KEK, so the caller has to pass the subjects to `outdated_keys`. Only records
        before `_takeover_end` are read: this owner writes all later records under the current KEK.
        """
        current_kek = self._keyring.current
        start = self._takeover_end  # an empty range: with a single KEK, no key is outdated
        if len(self._keyring.names) > 1:
            start, _ = self._log.bounds(self.partition)
        for records in self._log.read(self.partition, start, self._takeover_end):
            key_changes = key_records(self._log.topic, self.partition, records)
            yield [
                subject
                for subject, wrapped in key_changes
                if wrapped is not None and wrapped.kek_name != current_kek
            ]
        self._log.close()

    def outdated_keys(self, subjects: Iterable[str]) -> ChangedKeys:
        """Return the active keys of these subjects, by subject, if they are encrypted with an older KEK."""
        current_keys = {subject: self._known_keys(subject).current for subject in subjects}
        outdated_subjects = [
            subject
            for subject, wrapped in current_keys.items()
            if wrapped and wrapped.kek_name != self._keyring.current
        ]
        return {subject: key for subject in outdated_subjects if (key := self.key_of(subject)) is not None}

    def _find_key(self, subject: str, kid: str) -> DataKey | None:
        key = self._decrypted.find(subject, kid)
        if key is None and kid not in self._known_keys(subject).ended:
            if not self._is_resolved:
                self.unresolved_keys[kid] = subject
            elif not self._is_loss_accepted:
                raise self._lost_key_error(kid, subject)
        return key

    def _lost_key_error(self, kid: str, subject: str) -> ContradictionError:
        return ContradictionError(
            f"key {kid} of {self._aggregate.name} {subject!r} is not in {self.log_name}, and it was not erased",
            "restore the topic's records before anything is decided: values encrypted with the key are lost without it",
        )

    def _end_key(self, subject: str, kid: str) -> None:
        self.unresolved_keys.pop(kid, None)
        if kid not in self._known_keys(subject).ended:
            self._record_change(ErasedKey(subject, kid))

    def _known_keys(self, subject: str) -> SubjectKeys:
        return self._changed_subjects.get(subject) or self._key_store.keys_of(subject)

    def _record_change(self, change: KeyChange) -> None:
        self._changed_subjects[change.subject] = apply_change(self._known_keys(change.subject), change)
        self._changes.append(change)
        self._decrypted.forget(change.subject)

    def _write(self, events: int) -> None:
        offsets = self._key_store.offsets
        end = KeyOffsets(offsets.topics, max(offsets.keys, self.next_offset), max(offsets.events, events))
        if self._changes or end != offsets:
            self._key_store.apply(offsets, end, self._changes)
        self._drop_changes()

    def _drop_changes(self) -> None:
        self._changes, self._changed_subjects = [], {}
