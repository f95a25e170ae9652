"""A consistent view of a shard. Owners call it once or twice for each command, so every function call matters."""

from collections.abc import Callable
from typing import Self

from cqrs_cli.core.stored import DedupEntry, StoredState
from cqrs_cli.state import encoding
from cqrs_cli.state.deferred_table import LmdbDeferralTable
from cqrs_cli.state.lmdb_types import Database, Transaction


class LmdbView:
    """A `StateView` in one read transaction, which begins with the `with` block."""

    __slots__ = ("_begin", "_deferred", "_get", "_ids", "_segments", "_states", "_txn", "greatest_id")

    def __init__(
        self,
        begin: Callable[[], Transaction],
        states: Database,
        ids: list[Database],
        deferred: Database,
    ) -> None:
        self._begin, self._states, self._ids, self._deferred = begin, states, ids, deferred

    def __enter__(self) -> Self:
        self._txn = txn = self._begin()
        self._get = txn.cursor(self._states).get
        # A cursor that is already at the right page finds the next key in this page (UUIDv7: twice as fast).
        cursors = [txn.cursor(db) for db in self._ids]
        # Each cursor with its greatest key: a new UUIDv7 is greater, so a comparison replaces the lookup.
        self._segments = [(cursor, cursor.key()) for cursor in cursors if cursor.last()]
        self.greatest_id = encoding.greatest_id([greatest_key for _, greatest_key in self._segments])
        return self

    def __exit__(self, *_: object) -> None:
        self._txn.abort()

    def deferred_view(self) -> LmdbDeferralTable:
        return LmdbDeferralTable(self._txn, self._deferred)

    def find_state(self, aggregate_id: str) -> StoredState | None:
        key = aggregate_id.encode()
        if len(key) > encoding.MAX_KEY:
            return self._find_long_key(key)
        value = self._get(key)
        return None if value is None else encoding.decode_state(value)

    def _find_long_key(self, key: bytes) -> StoredState | None:
        value = self._get(encoding.shorten(key))
        if value is None:
            return None
        whole_key, state = encoding.decode_long_state(value)
        encoding.check_whole_key(whole_key, key)
        return state

    def find_dedup_entry(self, subject: str, command_id: str) -> DedupEntry | None:
        if command_id > self.greatest_id:
            return None  # greater than each remembered id, so it is new
        whole_key = key = encoding.dedup_key(subject, command_id)
        if len(whole_key) > encoding.MAX_KEY:
            key = encoding.shorten(whole_key)
        latest_entry: DedupEntry | None = None
        for cursor, greatest_key in self._segments:
            if key <= greatest_key and cursor.set_key(key):
                entry = encoding.decode_whole_dedup(cursor.value(), whole_key)
                if latest_entry is None or entry.timestamp > latest_entry.timestamp:
                    latest_entry = entry
        return latest_entry
