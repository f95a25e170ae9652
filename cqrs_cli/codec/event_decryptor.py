"""Decrypts the personal fields of events for readers: every reader of events uses this module.

Readers without a keyring, and readers of erased data, get redacted values. Owners do not use this module, since they
know all keys of their partitions.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from cqrs_cli.codec.encrypted_events import (
    EncryptedEvent,
    PersonalMembers,
    decrypt_event,
    may_be_encrypted,
    read_encrypted_event,
    redact_event,
)
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import DataKey, DecryptionError
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.log import EventsLog
from cqrs_cli.keys.reader_keys import KeyUse, ReaderKeys


class KeySource(NamedTuple):
    """The keys of a reader: the keyring (None for a reader without a keyring), and the log with the data keys."""

    keyring: KeyRingAddress | None
    log: EventsLog


class EventDecryptor:
    """Decrypts the events of one aggregate; thread-safe. It reads no keys before the first encrypted member.

    An `Erased` takes effect for the whole batch that contains it. `personal`: the personal-data annotations; None for
    an aggregate without personal fields. `keys`: None for a reader that reads no keys. `only`: the only aggregate id to
    decrypt; None for all. `max_key_age`: seconds after which known keys are read again before use. None means never: a
    reader of all events in order sees the `Erased` of each key.
    """

    def __init__(
        self,
        topic: str,
        personal: PersonalMembers | None,
        keys: KeySource | None = None,
        only: str | None = None,
        max_key_age: float | None = None,
    ) -> None:
        self._topic, self._personal, self._keys, self._only = topic, personal, keys, only
        self._max_key_age = max_key_age
        self._partitions: dict[int, ReaderKeys] = {}  # by partition of the keys topic
        self._key_partition_count = 0  # of the keys topic; 0 until it is known
        self._lock = threading.Lock()

    def view_events(self, partition: int, records: list[Record]) -> list[Record]:
        """Return the events with decrypted members. A member whose key is gone gets the redacted value.

        Raises `ContradictionError` if a member cannot be decrypted with its own key, and errors of reading the keys.
        """
        if self._personal is None:
            return records
        numbered = ((number, read_encrypted_event(record.value)) for number, record in enumerate(records))
        encrypted = {number: event for number, event in numbered if event is not None}
        if not encrypted:
            return records
        viewed = list(records)
        with self._lock:
            uses = {
                number: self._key_uses(partition, records[number], event)
                for number, event in encrypted.items()
            }
            reader_keys = self._read_keys(
                partition, encrypted.values(), [use for event_uses in uses.values() for use in event_uses]
            )
            for number, event in encrypted.items():
                keys = {use.kid: self._find(reader_keys, partition, use) for use in uses[number]}
                viewed[number] = self._decrypt(partition, records[number], event, keys)
        return viewed

    def may_change(self, value: bytes | None) -> bool:
        """False if an event with this value certainly has no encrypted members and is no `Erased`: a cheap test."""
        return self._personal is not None and may_be_encrypted(value)

    def current_key(self, partition: int, subject: str) -> DataKey | None:
        """Return the current data key of an aggregate; None if it has no key, or the reader has no keyring."""
        if self._personal is None or self._keys is None or self._keys.keyring is None:
            return None
        with self._lock:
            reader_keys = self._reader_keys(self._keys, partition)
            reader_keys.read_to_end()
            return reader_keys.current_key(subject)

    def current_key_id(self, partition: int, subject: str) -> str | None:
        """Return the id of the current data key of an aggregate; None if it has no key. Needs no keyring."""
        if self._personal is None or self._keys is None:
            return None
        with self._lock:
            reader_keys = self._reader_keys(self._keys, partition)
            reader_keys.read_to_end()
            return reader_keys.current_key_id(subject)

    def check_no_lost_keys(self) -> None:
        """Raise `ContradictionError` for a key that was needed and is lost: it is gone, and no `Erased` names it.

        Call this method at the end of a read. The `Erased` of a missing key may be later than the last event that was
        read, because it is committed with the key's tombstone, after all events that it erases. So this method also
        searches the events that were not read.
        """
        with self._lock:
            for number, reader_keys in self._partitions.items():
                if reader_keys.unresolved_keys:
                    self._search_erasures(reader_keys, number)
                    reader_keys.check_all_resolved()

    def close(self) -> None:
        """Drop the keys and close their log. Idempotent."""
        self._partitions.clear()
        if self._keys is not None:
            self._keys.log.close()

    def _key_uses(self, partition: int, record: Record, event: EncryptedEvent) -> list[KeyUse]:
        try:
            return [KeyUse(event.subject, kid, record.offset) for kid in event.kids()]
        except ValueError as error:  # a malformed encrypted value
            raise self._fault(partition, record, error) from None

    def _read_keys(
        self, partition: int, events: Iterable[EncryptedEvent], uses: list[KeyUse]
    ) -> ReaderKeys | None:
        """Drop the keys that an `Erased` in these events names, and read the keys that the events need. Return the
        known keys; None for a reader without a keyring, and before any key is needed.
        """
        if self._keys is None or self._keys.keyring is None or (not self._partitions and not uses):
            return None
        reader_keys = self._reader_keys(self._keys, partition)
        self._end_keys(reader_keys, events)
        reader_keys.read_if_needed(partition, uses)
        return reader_keys

    def _end_keys(self, reader_keys: ReaderKeys, events: Iterable[EncryptedEvent]) -> None:
        """Drop the keys that an `Erased` in these events names."""
        for event in events:
            with suppress(ValueError):  # the code that reads the event rejects it
                if (kid := event.erased_key) is not None and self._only in (None, event.subject):
                    reader_keys.end_key(event.subject, kid)

    def _search_erasures(self, reader_keys: ReaderKeys, keys_partition: int) -> None:
        """Search the events for an `Erased` of the unresolved keys, also in child partitions."""
        assert self._keys is not None
        log, start_offsets = self._keys.log, reader_keys.unresolved_offsets()
        for partition in range(keys_partition, log.event_partitions(), self._key_partition_count):
            if partition < min(start_offsets):
                continue
            for records in log.events_from(partition, start_offsets.get(partition, 0)):
                self._end_keys(
                    reader_keys, filter(None, (read_encrypted_event(record.value) for record in records))
                )

    def _reader_keys(self, keys: KeySource, partition: int) -> ReaderKeys:
        self._key_partition_count = self._key_partition_count or keys.log.partition_count()
        number = partition % self._key_partition_count
        if number not in self._partitions:
            self._partitions[number] = ReaderKeys(
                keys.log, number, keys.keyring, self._only, self._max_key_age
            )
        return self._partitions[number]

    def _find(self, reader_keys: ReaderKeys | None, partition: int, use: KeyUse) -> DataKey | None:
        if reader_keys is None or self._only not in (None, use.subject):
            return None
        return reader_keys.find(partition, use)

    def _decrypt(
        self, partition: int, record: Record, event: EncryptedEvent, keys: dict[str, DataKey | None]
    ) -> Record:
        if not keys or self._personal is None:
            return record
        try:
            return replace(
                record, value=decrypt_event(self._personal, record.value or b"", event, keys.__getitem__)
            )
        except DecryptionError as error:
            raise self._fault(partition, record, error) from None

    def _fault(self, partition: int, record: Record, error: ValueError) -> ContradictionError:
        return ContradictionError(
            f"{self._topic}:{partition}@{record.offset}: a personal field cannot be decrypted: {error}",
            "the record was altered or moved, or its key was: compare with a replica or a backup",
        )


class EventRedactor:
    """Redacts the personal fields of events, for readers that want no personal values. It needs no key.

    Unlike an `EventDecryptor` without a keyring, it also redacts events that were written before a field was annotated.
    `personal`: the personal-data annotations; None for an aggregate without personal fields.
    """

    def __init__(self, personal: PersonalMembers | None) -> None:
        self._personal = personal

    def view_events(self, partition: int, records: list[Record]) -> list[Record]:
        """Return the events with redacted values."""
        personal = self._personal
        if personal is None:
            return records
        return [replace(record, value=redact_event(personal, record.value or b"")) for record in records]

    def may_change(self, value: bytes | None) -> bool:
        """True for every event of an aggregate with personal fields, whatever its value."""
        return self._personal is not None

    def current_key(self, partition: int, subject: str) -> None:
        """Return None, because this reader reads no key."""

    def current_key_id(self, partition: int, subject: str) -> None:
        """Return None, because this reader reads no key."""

    def check_no_lost_keys(self) -> None:
        """Do nothing, since no key was needed."""

    def close(self) -> None:
        """Do nothing, since nothing is open."""


#: How a reader sees personal fields: decrypted, or redacted.
EventView = EventDecryptor | EventRedactor
