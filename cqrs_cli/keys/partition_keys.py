"""The data keys of one partition of a keys topic, which a reader keeps in memory and never writes to disk."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.decrypted_keys import DecryptedKeys
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.log import KeysLog, key_bounds, key_records
from cqrs_cli.keys.topic import KeyTable, Treatment, WrappedKey

#: Age in seconds from which known keys are dropped, and read again from the start. It must be less than a day, after
#: which compaction removes a tombstone (`delete.retention.ms`): a reader that missed the tombstone would keep the key.
_REREAD_AFTER = 3600.0

_NO_KEYS = KeyTable()


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

    `keyring`: None for a reader that decrypts nothing. `only`: the only aggregate id whose keys count; None for all.
    `max_age`: seconds after which known keys are read again before use. None means never: a reader of all events in
    order learns from the `Erased` events which keys to drop. `clock`: wall-clock time in seconds,
    because a monotonic clock may stop while the machine is suspended.
    """

    def __init__(
        self,
        log: KeysLog,
        partition: int,
        keyring: KeyRingAddress | None,
        only: str | None = None,
        max_age: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._log, self._partition, self._only = log, partition, only
        self._max_age, self._clock = max_age, clock
        self._read_at = 0.0  # the time of the last read
        self._known: dict[str, KeyTable] = {}
        load_keyring = _no_keyring if keyring is None else keyring.load
        self._decrypted = DecryptedKeys(log.topic, self._table_of, load_keyring)
        self._next_offset = 0  # the offset up to which the keys were read
        self._end: int | None = None  # the high watermark of the keys at the last request
        #: Events partition → offset. `_end` includes the keys of all events below this offset, because it was requested
        #: after their commit.
        self._seen: dict[int, int] = {}
        #: Unresolved keys by key id: the key is gone, and no `Erased` has named it yet.
        self.unresolved_keys: dict[str, UnresolvedKey] = {}

    def end_key(self, subject: str, kid: str) -> None:
        """Drop a key that an `Erased` names, and never use it again."""
        self._known[subject] = self._table_of(subject).with_erased(kid)
        self._decrypted.forget(subject)
        self.unresolved_keys.pop(kid, None)

    def read_if_needed(self, events_partition: int, uses: list[KeyUse]) -> None:
        """Read more keys if one of these values, in the partition `events_partition`, cannot be classified yet.

        One request for the end of the keys is enough for all events that were committed before, so a replay makes only
        one.

        Raises `ContradictionError` if the topic has no record: compaction leaves at least one record, so keys were
        lost.
        """
        if uses:
            self._refresh()
        unclassified = [use for use in uses if self._treatment(events_partition, use) == "wait"]
        if not unclassified:
            return
        seen_end = max(self._log.end_of_events(events_partition), *(use.offset + 1 for use in uses))
        if not self.read_to_end():
            raise self._lost_keys_error(unclassified[0])
        self._seen[events_partition] = seen_end

    def _refresh(self) -> None:
        """If the last read is more than `max_age` seconds ago, read on, so that erased keys are dropped.

        If it is more than `_REREAD_AFTER` seconds ago, forget all keys, so that they are read from the beginning.
        """
        if self._max_age is None or self._end is None:
            return
        age = self._clock() - self._read_at
        if 0 <= age < _REREAD_AFTER:
            if age >= self._max_age:
                self.read_to_end()
            return
        self._known = {subject: KeyTable(ended=table.ended) for subject, table in self._known.items()}
        self._decrypted.clear()
        self._seen.clear()
        self._next_offset, self._end = 0, None

    def read_to_end(self) -> bool:
        """Read the keys up to their current end; return False if there is no record at all.

        Raises `ContradictionError` for a truncated keys topic, as `key_bounds` does.
        """
        self._read_at = self._clock()
        start, end = key_bounds(self._log, self._partition, self._next_offset)
        for records in self._log.read(self._partition, max(start, self._next_offset), end):
            for subject, wrapped in self._own_records(records):
                self._known[subject] = self._table_of(subject).with_record(wrapped)
                self._decrypted.forget(subject)
        self._next_offset = self._end = end
        return start < end

    def find(self, events_partition: int, use: KeyUse) -> DataKey | None:
        """Return the data key of a value; None if the key is gone. Call it after `read_if_needed`."""
        key = self._decrypted.find(use.subject, use.kid)
        if key is None:
            assert self._treatment(events_partition, use) == "erased"
            if use.kid not in self._table_of(use.subject).ended:
                self.unresolved_keys[use.kid] = UnresolvedKey(use.subject, events_partition, use.offset)
        return key

    def current_key_id(self, subject: str) -> str | None:
        """Return the id of the data key of an aggregate, as far as the keys were read; None if it has no key."""
        wrapped = self._table_of(subject).current
        return None if wrapped is None else wrapped.kid

    def current_key(self, subject: str) -> DataKey | None:
        """Return the data key of an aggregate, as far as the keys were read; None if it has no key."""
        return self._decrypted.key_of(subject)

    def unresolved_offsets(self) -> dict[int, int]:
        """Return the first offset of a value with an unresolved key, by partition of the events."""
        offsets = dict[int, int]()
        for key in self.unresolved_keys.values():
            offsets[key.partition] = min(key.offset, offsets.get(key.partition, key.offset))
        return offsets

    def check_all_resolved(self) -> None:
        """Raise `ContradictionError` for the first unresolved key."""
        for kid, key in self.unresolved_keys.items():
            raise ContradictionError(
                f"key {kid} of {key.subject!r} is not in {self._log.topic} partition {self._partition}, and it"
                " was not erased",
                "restore its record; without a keyring, everything except personal data can be read",
            )

    def _lost_keys_error(self, use: KeyUse) -> ContradictionError:
        return ContradictionError(
            f"{self._log.topic} partition {self._partition} has no records, not even key {use.kid} of"
            f" {use.subject!r}, and it was not erased",
            "the topic was emptied or recreated: restore its records; without them no personal data can be read",
        )

    def _treatment(self, events_partition: int, use: KeyUse) -> Treatment:
        """Return how to treat a value. The end of the keys counts only if it was requested after the value was seen."""
        end = self._end if use.offset < self._seen.get(events_partition, 0) else None
        return self._table_of(use.subject).treatment(use.kid, self._next_offset, end)

    def _table_of(self, subject: str) -> KeyTable:
        return self._known.get(subject, _NO_KEYS)

    def _own_records(self, records: Iterable[Record]) -> Iterator[tuple[str, WrappedKey | None]]:
        keys = key_records(self._log.topic, self._partition, records)
        return ((subject, wrapped) for subject, wrapped in keys if self._only in (None, subject))


def _no_keyring() -> Keyring:
    raise AssertionError("this reader decrypts nothing")
