"""The data keys that a reader of events knows, in memory only. Owners have `OwnerKeys`, which are also on disk."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.decrypted_key_cache import DecryptedKeyCache
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.log import KeysLog, key_bounds, key_records
from cqrs_cli.keys.topic import SubjectKeys, Treatment, WrappedKey

#: Age in seconds from which known keys are dropped, and read again from the start. It must be less than a day, after
#: which compaction removes a tombstone (`delete.retention.ms`): a reader that missed the tombstone would keep the key.
_REREAD_AFTER = 3600.0

_NO_KEYS = SubjectKeys()


class KeyUse(Struct, frozen=True):
    """The use of a data key by an encrypted value: the value's subject, the key's id, and the offset of the event."""

    subject: str
    kid: str
    offset: int


class UnresolvedKey(NamedTuple):
    """A value whose key is not in the keys topic. The key was erased if a later `Erased` names it; else it was lost."""

    subject: str
    partition: int  # of the events
    offset: int


class ReaderKeys:
    """The data keys in one partition of the keys topic, as far as a reader has read them. They are read when a value
    needs a key.

    `keyring`: None for a reader that decrypts nothing. `only`: the only aggregate id whose keys are needed; None for
    all. `max_age`: age in seconds from which known keys are brought up to date before use. None means never: a reader
    of all events in order sees the `Erased` of each key. `clock`: wall-clock time in seconds, because a monotonic clock
    may stop while the machine is suspended.
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
        self._read_at = 0.0  # the time of the last read, by `clock`
        self._keys: dict[str, SubjectKeys] = {}
        load_keyring = _no_keyring if keyring is None else keyring.load
        self._decrypted = DecryptedKeyCache(log.topic, self._keys_of, load_keyring)
        self._next_offset = 0  # the next offset to read in the keys topic
        self._end: int | None = None  # the high watermark of the keys topic at the last read
        #: Partition of the events → an offset: events below this offset were committed before `_end` was requested, so
        #: their keys are below `_end`.
        self._covered_events: dict[int, int] = {}
        #: By key id. A later `Erased` may still name these keys.
        self.unresolved_keys: dict[str, UnresolvedKey] = {}

    def end_key(self, subject: str, kid: str) -> None:
        """Drop the key that an `Erased` names, so that it is never used again."""
        self._keys[subject] = self._keys_of(subject).with_erased(kid)
        self._decrypted.forget(subject)
        self.unresolved_keys.pop(kid, None)

    def read_if_needed(self, events_partition: int, uses: list[KeyUse]) -> None:
        """Read the keys topic to its end, unless the known keys show already how to treat each value. `uses`: the uses
        of keys by values in events of the partition `events_partition`.

        One read is enough for all events that were committed before it, so a replay reads the keys topic only once.

        Raises `ContradictionError` if the keys topic is empty. Compaction leaves at least one record, so keys were
        lost.
        """
        if uses:
            self._refresh()
        undecided_uses = [use for use in uses if self._treatment(events_partition, use) == "read more"]
        if not undecided_uses:
            return
        covered_end = max(self._log.end_of_events(events_partition), *(use.offset + 1 for use in uses))
        if not self.read_to_end():
            raise self._lost_keys_error(undecided_uses[0])
        self._covered_events[events_partition] = covered_end

    def _refresh(self) -> None:
        """Bring the known keys up to date if the last read is at least `max_age` seconds ago, so that erased keys are
        dropped. If it is at least `_REREAD_AFTER` seconds ago, forget all keys; the next read begins at the log start.
        """
        if self._max_age is None or self._end is None:
            return
        age = self._clock() - self._read_at
        if 0 <= age < _REREAD_AFTER:
            if age >= self._max_age:
                self.read_to_end()
            return
        self._keys = {subject: SubjectKeys(ended=keys.ended) for subject, keys in self._keys.items()}
        self._decrypted.clear()
        self._covered_events.clear()
        self._next_offset, self._end = 0, None

    def read_to_end(self) -> bool:
        """Read the keys topic up to its high watermark. Return False if its log is empty.

        Raises `ContradictionError` for a truncated keys topic, as `key_bounds` does.
        """
        self._read_at = self._clock()
        start, end = key_bounds(self._log, self._partition, self._next_offset)
        for records in self._log.read(self._partition, max(start, self._next_offset), end):
            for subject, wrapped in self._own_records(records):
                self._keys[subject] = self._keys_of(subject).with_record(wrapped)
                self._decrypted.forget(subject)
        self._next_offset = self._end = end
        return start < end

    def find(self, events_partition: int, use: KeyUse) -> DataKey | None:
        """Return the data key of a value; None if it must be redacted. Call it after `read_if_needed` for the same
        value.
        """
        key = self._decrypted.find(use.subject, use.kid)
        if key is None:
            assert self._treatment(events_partition, use) == "redact"
            if use.kid not in self._keys_of(use.subject).ended:
                self.unresolved_keys[use.kid] = UnresolvedKey(use.subject, events_partition, use.offset)
        return key

    def current_key_id(self, subject: str) -> str | None:
        """Return the id of the active data key of a subject, by the keys that were read; None if it has no key."""
        wrapped = self._keys_of(subject).current
        return None if wrapped is None else wrapped.kid

    def current_key(self, subject: str) -> DataKey | None:
        """Return the active data key of a subject, by the keys that were read; None if it has no key."""
        return self._decrypted.key_of(subject)

    def unresolved_offsets(self) -> dict[int, int]:
        """Return, by partition of the events, the offset of the first event with an unresolved key."""
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
        """Return how to treat a value. `_end` is used only if it was requested after the event was committed."""
        end = self._end if use.offset < self._covered_events.get(events_partition, 0) else None
        return self._keys_of(use.subject).treatment(use.kid, self._next_offset, end)

    def _keys_of(self, subject: str) -> SubjectKeys:
        return self._keys.get(subject, _NO_KEYS)

    def _own_records(self, records: Iterable[Record]) -> Iterator[tuple[str, WrappedKey | None]]:
        keys = key_records(self._log.topic, self._partition, records)
        return ((subject, wrapped) for subject, wrapped in keys if self._only in (None, subject))


def _no_keyring() -> Keyring:
    raise AssertionError("this reader decrypts nothing")
