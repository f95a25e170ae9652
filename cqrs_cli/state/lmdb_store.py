"""The store of one partition in LMDB: larger than memory, readable by other processes, changed in one transaction.

Writes are not synced, because the store is a cache of the log; `shard.py` decides whether it can be trusted.

LMDB's option `writemap` would make random inserts 1.7 times as fast and keep dirty pages out of anonymous memory. But
with `writemap`, a full disk causes a SIGBUS instead of an error, and a second process that opens a smaller map
truncates the file of the first process.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias, TypeVar

from cqrs_cli.core.stored import StoredState
from cqrs_cli.observer import reached
from cqrs_cli.state import encoding
from cqrs_cli.state.deferred_table import LmdbDeferralTable
from cqrs_cli.state.environment import (
    MAP_SIZE,
    MAX_READERS,
    begin_transaction,
    open_environment,
    write_and_enlarge_map,
)
from cqrs_cli.state.errors import translate_errors
from cqrs_cli.state.lmdb_listing import iterate_aggregates, read_page
from cqrs_cli.state.lmdb_types import Database, Transaction
from cqrs_cli.state.lmdb_view import LmdbView
from cqrs_cli.state.store import NotOwnerError, Positions, WriteBatch, check_clock, split_by_segment

#: Keys of the database `meta`. The head is the encoded positions and the owner's token.
_HEAD, _IDENTITY, _CODE = b"head", b"identity", "code"
_EMPTY_HEAD = encoding.encode_head(Positions(), "")
_by_key: Callable[[tuple[bytes, bytes]], bytes] = itemgetter(0)

Entries: TypeAlias = list[tuple[bytes, bytes]]

_T = TypeVar("_T")


class LmdbStore:
    """A `Store` in the folder `path`; `window_ms` is the dedup window. Not thread-safe.

    A process can open a folder only once. Raises `ConfigurationError` if the folder cannot be used, and `CorruptError`
    if it does not contain an intact LMDB file.
    """

    def __init__(
        self,
        path: Path,
        window_ms: int,
        *,
        readonly: bool = False,
        map_size: int = MAP_SIZE,
        max_readers: int = MAX_READERS,
    ) -> None:
        self._path = path
        self._window_ms = window_ms
        self._is_open = True
        self._begin_requested_at: float | None = None
        with translate_errors(path):
            self._env = open_environment(path, map_size, readonly, max_readers)
            try:
                # `open_db` without a transaction would begin one itself, and hold the GIL while it waits for the lock.
                with nullcontext() if readonly else self._env.begin(write=True) as txn:
                    self._meta = self._env.open_db(b"meta", txn, create=not readonly)
                    self._states = self._env.open_db(b"states", txn, create=not readonly)
                    # A segment is a time span as long as the dedup window. Segment s is in database s % 2.
                    self._ids = [
                        self._env.open_db(b"ids.%d" % number, txn, create=not readonly) for number in (0, 1)
                    ]
                    self._deferred = self._env.open_db(b"deferred", txn, create=not readonly)
            except BaseException:
                self._env.close()
                raise

    def identity(self) -> bytes:
        """Return the encoded identity of this shard; empty if it was never written."""
        return self._read(lambda txn: txn.get(_IDENTITY, b"", self._meta))

    def set_identity(self, identity: bytes) -> None:
        """Write the identity of a new shard."""
        self._write(lambda txn: txn.put(_IDENTITY, identity, db=self._meta))

    def token(self) -> str:
        return encoding.decode_head(self._read(self._head))[1]

    def take_ownership(self, token: str, expected: str) -> None:
        def write(txn: Transaction) -> None:
            positions = self._check_owner(txn, expected)
            txn.put(_HEAD, encoding.encode_head(positions, token), db=self._meta)

        self._write(write)

    def code_digest(self) -> str:
        return self.get_value(_CODE).decode()

    def set_code_digest(self, code: str, token: str) -> None:
        self.set_value(_CODE, code.encode(), token)

    def get_value(self, name: str) -> bytes:
        return self._read(lambda txn: txn.get(name.encode(), b"", self._meta))

    def set_value(self, name: str, value: bytes, token: str) -> None:
        def write(txn: Transaction) -> None:
            self._check_owner(txn, token)
            txn.put(name.encode(), value, db=self._meta)

        self._write(write)

    def drop_aggregates(self, names: Collection[str], token: str) -> None:
        def write(txn: Transaction) -> None:
            self._check_owner(txn, token)
            for key in map(str.encode, names):
                txn.delete(key if len(key) <= encoding.MAX_KEY else encoding.shorten(key), db=self._states)

        self._write(write)

    def positions(self) -> Positions:
        return encoding.decode_head(self._read(self._head))[0]

    @contextmanager
    def view(self) -> Iterator[LmdbView]:
        with (
            translate_errors(self._path),
            LmdbView(self._begin, self._states, self._ids, self._deferred) as view,
        ):
            yield view

    def apply(self, change: WriteBatch) -> None:
        check_clock(change)
        start_segment = change.start.clock // self._window_ms
        end_segment = change.end.clock // self._window_ms
        # Sorted, because neighbouring keys share pages, so each page is looked up and copied once.
        states = sorted(encoding.encode_states(change.states), key=_by_key)
        # (database, entries) for the current and the previous segment
        id_entries = [
            (self._ids[(end_segment - age) % 2], sorted(encoding.encode_dedup_entries(entries), key=_by_key))
            for age, entries in enumerate(split_by_segment(change, self._window_ms))
        ]
        expected = encoding.encode_head(change.start, change.token)

        def write(txn: Transaction) -> None:
            # Checked inside the transaction: a paused owner that wakes up must not overwrite newer states.
            if (head := self._head(txn)) != expected:
                raise NotOwnerError(
                    f"the shard is at {encoding.decode_head(head)}, not {encoding.decode_head(expected)}"
                )
            self._drop_segments(txn, start_segment, end_segment)
            _put(txn, self._states, states)
            for db, entries in id_entries:
                _put(txn, db, entries)
            LmdbDeferralTable(txn, self._deferred).change(change.deferred)
            txn.put(_HEAD, encoding.encode_head(change.end, change.token), db=self._meta)
            reached("apply.inside")

        reached("apply.before")
        self._write(write)
        reached("apply.after")

    @contextmanager
    def snapshot(self) -> Iterator[tuple[Positions, Iterator[tuple[str, StoredState]]]]:
        """Return positions and all aggregates of one moment, valid inside the block. Keep the block short."""
        with translate_errors(self._path), self._begin() as txn:
            yield encoding.decode_head(self._head(txn))[0], iterate_aggregates(txn, self._states)

    def items(self) -> Iterator[tuple[str, StoredState]]:
        with translate_errors(self._path), self._begin() as txn:
            yield from iterate_aggregates(txn, self._states)

    def page(self, prefix: str, after: str, limit: int) -> list[tuple[str, StoredState]]:
        """Return at most `limit` aggregates with the `prefix` whose ids are greater than `after`, in order of UTF-8.

        Ids longer than `encoding.MAX_KEY` bytes are left out, because their keys are hashes.
        """
        with translate_errors(self._path), self._begin() as txn:
            return read_page(txn, self._states, prefix, after, limit)

    def count(self) -> int:
        return self._read(lambda txn: txn.stat(self._states)["entries"])

    @property
    def seconds_waiting_for_lock(self) -> float:
        requested_at = self._begin_requested_at
        return 0.0 if requested_at is None else time.monotonic() - requested_at

    def sync(self) -> None:
        """Write all changes to disk."""
        with translate_errors(self._path):
            self._env.sync(True)  # without True, `sync` does nothing in an environment opened with sync=False

    def copy(self, folder: Path) -> None:
        """Write a consistent, compact copy to an empty folder. Other processes may change the store during the copy."""
        with translate_errors(self._path):
            self._env.copy(str(folder), compact=True)

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        try:
            if not self._env.flags()["readonly"]:
                self.sync()
        finally:
            self._env.close()

    def close_without_sync(self) -> None:
        """Close an unusable store without a sync."""
        self._is_open = False
        self._env.close()

    def _head(self, txn: Transaction) -> bytes:
        """Return the encoded positions and token. Each write checks that they have not changed."""
        return txn.get(_HEAD, _EMPTY_HEAD, self._meta)

    def _check_owner(self, txn: Transaction, token: str) -> Positions:
        """Return the positions; raises `NotOwnerError` for a wrong token."""
        positions, owner = encoding.decode_head(self._head(txn))
        if owner != token:
            raise NotOwnerError(f"the token is {owner!r}, not {token!r}")
        return positions

    def _drop_segments(self, txn: Transaction, start_segment: int, end_segment: int) -> None:
        """Empty the databases of `end_segment` and the segment before it, if they are later than `start_segment`.

        Such a database still contains an older segment.
        """
        for segment in (end_segment, end_segment - 1):
            if segment > start_segment:
                txn.drop(self._ids[segment % 2], delete=False)

    def _read(self, read: Callable[[Transaction], _T]) -> _T:
        with translate_errors(self._path), self._begin() as txn:
            return read(txn)

    def _begin(self, write: bool = False) -> Transaction:
        self._begin_requested_at = time.monotonic()
        try:
            return begin_transaction(self._env, write)
        finally:
            self._begin_requested_at = None

    def _write(self, work: Callable[[Transaction], object]) -> None:
        """Do `work` in one transaction, and repeat it if the map was full."""
        self._env.reader_check()  # a killed reader would prevent the reuse of old pages
        with translate_errors(self._path):
            write_and_enlarge_map(self._env, partial(self._begin, write=True), work)


def _put(txn: Transaction, db: Database, entries: Entries) -> None:
    if entries:
        txn.cursor(db).putmulti(entries)
