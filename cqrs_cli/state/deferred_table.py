"""The deferred commands of a shard: entries and three indexes in one LMDB database, changed together.

e<key>                   the entry, as in its record
d<due><key>              the entries whose commands are not resubmitted yet, by due time (no value)
k<offset><topic id>      the key of the entry whose command was resubmitted at this offset
i<digest>                the key of the entry with this subject and command id
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from struct import Struct

from cqrs_cli.core.deferral.entry import Deferral, read_deferral
from cqrs_cli.state.encoding import dedup_key
from cqrs_cli.state.lmdb_types import Database, Transaction

_ENTRY, _DUE, _RESUBMITTED, _ID = b"e", b"d", b"k", b"i"
_NUMBER = Struct(">Q")
_KEY_START = 1 + _NUMBER.size


class LmdbDeferralTable:
    """A `DeferredView` in one transaction. In a write transaction, it also changes entries."""

    def __init__(self, txn: Transaction, db: Database) -> None:
        self._txn, self._db = txn, db

    def find_entry(self, key: str) -> Deferral | None:
        return self._entry(key.encode())

    def find_by_command_id(self, subject: str, command_id: str) -> Deferral | None:
        entry = self._entry(self._txn.get(_id_key(subject, command_id), None, self._db))
        return entry if entry is not None and (entry.subject, entry.id) == (subject, command_id) else None

    def find_resubmitted_at(self, topic_id: str, offset: int) -> Deferral | None:
        return self._entry(self._txn.get(_resubmitted_key(topic_id, offset), None, self._db))

    def resubmitted_entries(self) -> list[Deferral]:
        return list(self._entries(_RESUBMITTED))

    def due_entries(self, until: int, max_entries: int) -> list[Deferral]:
        entries: list[Deferral] = []
        with self._txn.cursor(self._db) as cursor:
            has_item = cursor.set_range(_DUE)
            while has_item and len(entries) < max_entries and cursor.key().startswith(_DUE):
                if _NUMBER.unpack_from(cursor.key(), 1)[0] > until:
                    break
                entry = self._entry(cursor.key()[_KEY_START:])
                assert entry is not None
                entries.append(entry)
                has_item = cursor.next()
        return entries

    def next_due(self) -> int | None:
        with self._txn.cursor(self._db) as cursor:
            if cursor.set_range(_DUE) and cursor.key().startswith(_DUE):
                return int(_NUMBER.unpack_from(cursor.key(), 1)[0])
        return None

    def is_empty(self) -> bool:
        return int(self._txn.stat(self._db)["entries"]) == 0

    def change(self, changes: Mapping[str, Deferral | None]) -> None:
        """Add, replace or (if the value is None) remove the entry of each key. Needs a write transaction."""
        for key, entry in changes.items():
            old_entry = self._entry(key.encode())
            if old_entry is not None:
                self._remove(old_entry)
            if entry is not None:
                self._add(entry)

    def _add(self, entry: Deferral) -> None:
        key = entry.key.encode()
        self._txn.put(_ENTRY + key, entry.value(), db=self._db)
        self._txn.put(_id_key(entry.subject, entry.id), key, db=self._db)
        if entry.resubmitted_offset is None:
            self._txn.put(_DUE + _NUMBER.pack(max(0, entry.due)) + key, b"", db=self._db)
        else:
            self._txn.put(
                _resubmitted_key(entry.resubmitted_topic_id, entry.resubmitted_offset), key, db=self._db
            )

    def _remove(self, entry: Deferral) -> None:
        """Remove an entry and its index entries."""
        key = entry.key.encode()
        self._txn.delete(_ENTRY + key, db=self._db)
        id_key = _id_key(entry.subject, entry.id)
        # Otherwise the index names a later command with the same id.
        if self._txn.get(id_key, None, self._db) == key:
            self._txn.delete(id_key, db=self._db)
        if entry.resubmitted_offset is None:
            self._txn.delete(_DUE + _NUMBER.pack(max(0, entry.due)) + key, db=self._db)
        else:
            self._txn.delete(
                _resubmitted_key(entry.resubmitted_topic_id, entry.resubmitted_offset), db=self._db
            )

    def _entry(self, key: bytes | None) -> Deferral | None:
        value = None if key is None else self._txn.get(_ENTRY + key, None, self._db)
        return None if value is None else read_deferral(key, value)

    def _entries(self, index: bytes) -> Iterator[Deferral]:
        with self._txn.cursor(self._db) as cursor:
            has_item = cursor.set_range(index)
            while has_item and cursor.key().startswith(index):
                entry = self._entry(cursor.value())
                assert entry is not None
                yield entry
                has_item = cursor.next()


def _id_key(subject: str, command_id: str) -> bytes:
    return _ID + blake2b(dedup_key(subject, command_id), digest_size=32).digest()


def _resubmitted_key(topic_id: str, offset: int) -> bytes:
    return _RESUBMITTED + _NUMBER.pack(offset) + topic_id.encode()
