"""An index in LMDB for `verify`: command offset → index entry, the encoded parts of a record that are needed later.

The index is on disk, because a log may be larger than memory. A later process can trust the index only after `sync`.

Entries in ascending order of offsets are appended, some thousands in one transaction. Any other order is slower, but
also correct.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from struct import Struct
from typing import TypeVar

import lmdb

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.state.environment import begin_transaction, write_and_enlarge_map
from cqrs_cli.state.lmdb_types import Transaction

#: The limits of entries and bytes for one transaction that appends.
MAX_APPENDED_ENTRIES = 5_000
MAX_APPENDED_BYTES = 4 << 20

#: The size of the map: address space, not disk. It is doubled when it is full.
_MAP_SIZE = 16 << 30

_KEY = Struct(">Q")
_pack: Callable[[int], bytes] = _KEY.pack

_T = TypeVar("_T")


class EntryIndex:
    """An index in the folder `path`, which must exist. Not thread-safe."""

    def __init__(
        self, path: Path, max_entries: int = MAX_APPENDED_ENTRIES, map_size: int = _MAP_SIZE
    ) -> None:
        """`max_entries` is the number of entries to append in one transaction."""
        self._path, self._max_entries = path, max_entries
        self._env = lmdb.open(
            str(path), map_size=map_size, sync=False, metasync=False, lock=False, readahead=True
        )
        self._pending: list[tuple[bytes, bytes]] = []
        self._pending_bytes = 0
        with self._env.begin() as txn, txn.cursor() as cursor:
            self._last_offset = _KEY.unpack(cursor.key())[0] if cursor.last() else -1

    def add_entry(self, command_offset: int, entry: bytes) -> bytes | None:
        """Add the entry of a command and return None. If the command has an entry already, keep and return that
        entry.
        """
        if command_offset <= self._last_offset:
            return self._insert_out_of_order(_pack(command_offset), entry)
        self._last_offset = command_offset
        self._pending.append((_pack(command_offset), entry))
        self._pending_bytes += len(entry)
        if len(self._pending) >= self._max_entries or self._pending_bytes >= MAX_APPENDED_BYTES:
            self._flush()
        return None

    def find_entry(self, command_offset: int) -> bytes | None:
        """Return the entry of a command, None without an entry."""
        self._flush()
        with self._env.begin() as txn:
            return txn.get(_pack(command_offset))

    def first_command(self) -> int | None:
        """Return the lowest command offset with an entry."""
        self._flush()
        with self._env.begin() as txn, txn.cursor() as cursor:
            return _KEY.unpack(cursor.key())[0] if cursor.first() else None

    def last_command(self) -> int | None:
        """Return the highest command offset with an entry."""
        return self._last_offset if self._last_offset >= 0 else None

    def delete_from(self, command_offset: int) -> int:
        """Remove the entries from a command offset on, and return their number."""
        self._flush()

        def work(txn: Transaction) -> int:
            with txn.cursor() as cursor:
                count = 0
                if cursor.set_range(_pack(command_offset)):
                    while cursor.delete():  # moves to the next entry
                        count += 1
                return count

        count = self._write(work)
        with self._env.begin() as txn, txn.cursor() as cursor:
            self._last_offset = _KEY.unpack(cursor.key())[0] if cursor.last() else -1
        return count

    def drop(self, command_offsets: list[int]) -> None:
        """Remove the entries of these commands."""
        self._flush()

        def work(txn: Transaction) -> None:
            for command_offset in command_offsets:
                txn.delete(_pack(command_offset))

        self._write(work)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield all entries, by command offset. Exhaust the iterator before the next change."""
        self._flush()
        with self._env.begin() as txn, txn.cursor() as cursor:
            for key, entry in cursor:
                yield _KEY.unpack(key)[0], entry

    def sync(self) -> None:
        """Write all entries to disk, for a later process."""
        self._flush()
        self._env.sync(True)

    def close(self) -> None:
        """Close the index. Idempotent."""
        self._env.close()

    def _insert_out_of_order(self, key: bytes, entry: bytes) -> bytes | None:
        """Insert an entry before the last offset. If the key has an entry already, keep and return that entry."""
        self._flush()

        def work(txn: Transaction) -> bytes | None:
            stored_entry: bytes | None = txn.get(key)
            if stored_entry is None:
                txn.put(key, entry)
            return stored_entry

        return self._write(work)

    def _flush(self) -> None:
        if not self._pending:
            return

        def work(txn: Transaction) -> None:
            txn.cursor().putmulti(self._pending, append=True)

        self._write(work)
        self._pending, self._pending_bytes = [], 0

    def _write(self, work: Callable[[Transaction], _T]) -> _T:
        """Do `work` in one transaction, and repeat it if the map was full."""
        try:
            return write_and_enlarge_map(self._env, partial(begin_transaction, self._env, write=True), work)
        except lmdb.Error as error:
            raise ConfigurationError(
                f"the index entries in {self._path} cannot be written ({error})",
                "free disk space, or set TMPDIR to another folder",
            ) from error
