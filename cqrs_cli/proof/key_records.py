"""Check the records of the keys topic one by one, and keep the last record of each aggregate."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import KID_BYTES, SECRET_BYTES, SIV_BYTES, from_base64url
from cqrs_cli.core.stored import StoredState
from cqrs_cli.keys.topic import COMPACTION_TICK, WrappedKey, key_value, read_key
from cqrs_cli.proof.findings import Findings
from cqrs_cli.state.store import Positions, Store, WriteBatch


class TopicKey(NamedTuple):
    """The last record of an aggregate in the keys topic. `wrapped`: None for a tombstone or an unreadable record."""

    offset: int
    wrapped: WrappedKey | None


def read_topic_key(record: Record) -> tuple[str, WrappedKey | None]:
    """Return the aggregate id and the data key of a record, None for a tombstone.

    Raises `ValueError` for a record that no owner writes.
    """
    subject, wrapped = (record.key or b"").decode(), read_key(record.value)
    if wrapped is None:
        return subject, None
    if not subject:
        raise ValueError("it has no aggregate id")
    sizes = len(from_base64url(wrapped.kid)), len(from_base64url(wrapped.key))
    if sizes != (KID_BYTES, SIV_BYTES + SECRET_BYTES):
        raise ValueError(f"its id has {sizes[0]} bytes, and its encrypted key {sizes[1]} bytes")
    if record.value != key_value(wrapped):
        raise ValueError("its JSON has another form than an owner writes")
    return subject, wrapped


class KeyRecords:
    """Folds a partition of the keys topic into a store, and finds the records that no owner writes.

    After a repartitioning, a partition of the keys topic has keys of several partitions. `is_assigned(key)`: True for
    the aggregates of the verified partition. `is_misplaced(key)`: True for an aggregate that no owner writes into this
    partition of the keys topic.
    """

    def __init__(
        self,
        store: Store,
        is_assigned: Callable[[bytes], bool],
        is_misplaced: Callable[[bytes], bool] = lambda key: False,
    ) -> None:
        self.findings = Findings()
        self._store, self._is_assigned, self._is_misplaced = store, is_assigned, is_misplaced

    def read(self, records: Iterable[Record]) -> None:
        """Fold the next records."""
        states = dict[str, StoredState]()
        for record in records:
            key = record.key or b""
            if (record.value, key) == COMPACTION_TICK:
                continue
            if self._is_misplaced(key):
                self.findings.add_violation("keys", record.offset, "is of an aggregate of another partition")
            elif self._is_assigned(key):
                states |= self._read_record(record)
        self._store.apply(WriteBatch(self._store.token(), Positions(), Positions(), states))

    def _read_record(self, record: Record) -> dict[str, StoredState]:
        value = record.value
        try:
            subject, _ = read_topic_key(record)
        except ValueError as error:
            self.findings.add_violation("keys", record.offset, f"is not a key: {error}")
            try:
                subject, value = (record.key or b"").decode(), None
            except UnicodeDecodeError:
                return {}
        return {subject: StoredState(1, record.offset, 0, value or b"")}

    def find(self, subject: str) -> TopicKey | None:
        """Return the last record of an aggregate; None if it has none."""
        with self._store.view() as view:
            return stored_key(view.find_state(subject))


def stored_key(stored: StoredState | None) -> TopicKey | None:
    """Return the record of the keys topic that `KeyRecords` has stored for an aggregate."""
    return None if stored is None else TopicKey(stored.offset, read_key(stored.state or None))
