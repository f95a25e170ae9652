"""Checks the records of the keys topic one by one, and stores the last record of each aggregate, for `verify`."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.keys.topic import COMPACTION_TICK, WrappedKey, read_key, read_written_key
from cqrs_cli.proof.findings import Findings
from cqrs_cli.state.store import Positions, Store, WriteBatch


class TopicKey(NamedTuple):
    """The last record of an aggregate in the keys topic."""

    offset: int
    wrapped: WrappedKey | None  # None for a tombstone or an unreadable record

    @property
    def kid(self) -> str | None:
        """The id of the key; None for a tombstone or an unreadable record."""
        return None if self.wrapped is None else self.wrapped.kid


class KeyRecords:
    """Stores the last record of each aggregate in a partition of the keys topic, and finds records that no owner
    writes.

    After a repartitioning, a partition of the keys topic has keys of several partitions. `is_assigned(key)`: True for
    the aggregates of the verified partition. `is_misplaced(key)`: True for an aggregate that belongs to another
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
        """Check and store the next records."""
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
            subject, _ = read_written_key(record)
        except ValueError as error:
            self.findings.add_violation("keys", record.offset, f"is not a key: {error}")
            try:
                subject, value = (record.key or b"").decode(), None
            except UnicodeDecodeError:
                return {}
        return {subject: StoredState(1, record.offset, 0, value or b"")}

    def current_key(self, subject: str) -> WrappedKey | None:
        """Return the current key of an aggregate, or None."""
        with self._store.view() as view:
            topic_key = stored_key(view.find_state(subject))
        return None if topic_key is None else topic_key.wrapped


def stored_key(stored_state: StoredState | None) -> TopicKey | None:
    """Return the record of the keys topic that `KeyRecords` has stored for an aggregate."""
    return (
        None if stored_state is None else TopicKey(stored_state.offset, read_key(stored_state.state or None))
    )
