"""A cache of a partition's data keys in LMDB, next to the shard: subject → `SubjectKeys`, whose keys are encrypted.

The cache is separate from the shard, and never part of a checkpoint: a copy from before an erasure would contain the
erased key. An owner writes the cache before the shard. So the cache contains each `Erased` that the shard has folded.

Every change is synced to disk, since keys change rarely. So the cache, unlike a shard, needs no shutdown marker.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import lmdb
import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.keys.topic import SubjectKeys, WrappedKey
from cqrs_cli.state.environment import begin_transaction, check_not_truncated, write_and_enlarge_map
from cqrs_cli.state.errors import CorruptError, translate_errors
from cqrs_cli.state.lmdb_types import Transaction
from cqrs_cli.state.store import NotOwnerError

#: The size of the map: address space, not disk. It is doubled when it is full.
_MAP_SIZE = 1 << 26

#: The key of the offsets. It cannot collide: all other keys are hashes of 32 bytes.
_OFFSETS_KEY = b"head"

_by_key: Callable[[tuple[bytes, object]], bytes] = itemgetter(0)


class KeyOffsets(Struct, frozen=True):
    """The next offsets to read of the keys topic and the events topic; `topics` are their ids."""

    topics: tuple[str, str]
    keys: int = 0
    events: int = 0


class KeyRecord(NamedTuple):
    """A record of the keys topic. `wrapped` is None for a tombstone."""

    subject: str
    wrapped: WrappedKey | None


class ErasedKey(NamedTuple):
    """The key that an `Erased` event names: the subject and the id of the deleted key."""

    subject: str
    kid: str


KeyChange: TypeAlias = KeyRecord | ErasedKey


class KeyStore(Protocol):
    """The known keys of one partition of a keys topic, and the offsets up to which the topics were read."""

    @property
    def offsets(self) -> KeyOffsets:
        """The next offsets to read."""

    def keys_of(self, subject: str) -> SubjectKeys:
        """Return the known keys of an aggregate."""

    def apply(self, start: KeyOffsets, end: KeyOffsets, changes: Iterable[KeyChange]) -> None:
        """Apply the changes between two offsets, all or none; raises `NotOwnerError` unless `start` is current."""

    def clear(self) -> None:
        """Remove all keys, and set the offsets to the beginning of the topics."""

    def close(self) -> None:
        """Close the store. Idempotent."""


class MemoryKeys:
    """A `KeyStore` in memory, for a partition whose states are in memory."""

    def __init__(self, topics: tuple[str, str]) -> None:
        """`topics`: the ids of the keys topic and of the events topic."""
        self._initial_offsets = self.offsets = KeyOffsets(topics)
        self._keys_by_subject: dict[str, SubjectKeys] = {}

    def keys_of(self, subject: str) -> SubjectKeys:
        return self._keys_by_subject.get(subject, SubjectKeys())

    def apply(self, start: KeyOffsets, end: KeyOffsets, changes: Iterable[KeyChange]) -> None:
        if self.offsets != start:
            raise _unexpected_offsets("memory", self.offsets, start)
        for change in changes:
            self._keys_by_subject[change.subject] = apply_change(self.keys_of(change.subject), change)
        self.offsets = end

    def clear(self) -> None:
        self._keys_by_subject, self.offsets = {}, self._initial_offsets

    def close(self) -> None:
        self._keys_by_subject = {}


class KeyCache:
    """A `KeyStore` in the folder `path`, created if it is missing. The keys of recreated topics are deleted."""

    def __init__(self, path: Path, topics: tuple[str, str], map_size: int = _MAP_SIZE) -> None:
        """`topics`: the ids of the keys topic and of the events topic."""
        self._path = path
        with translate_errors(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._env = lmdb.open(str(path), map_size=map_size, mode=0o600)
            check_not_truncated(self._env, path)
        self._initial_offsets = KeyOffsets(topics)
        if self.offsets.topics != topics:
            self._write(self._delete_all)

    @property
    def offsets(self) -> KeyOffsets:
        """The next offsets to read."""
        with translate_errors(self._path), begin_transaction(self._env, write=False) as txn:
            return self._offsets(txn)

    def keys_of(self, subject: str) -> SubjectKeys:
        """Return the known keys of an aggregate."""
        with translate_errors(self._path), begin_transaction(self._env, write=False) as txn:
            return _read_keys(txn, _key(subject))

    def apply(self, start: KeyOffsets, end: KeyOffsets, changes: Iterable[KeyChange]) -> None:
        """Apply the changes between two offsets, in one transaction.

        Raises `NotOwnerError` if the offsets of the cache are not `start`: then another owner writes it.
        """
        # Sorted, because neighbouring keys share pages, so each page is looked up once. The sort is stable: the changes
        # of an aggregate keep their order.
        sorted_changes = sorted(((_key(change.subject), change) for change in changes), key=_by_key)

        def work(txn: Transaction) -> None:
            if (offsets := self._offsets(txn)) != start:
                raise _unexpected_offsets(str(self._path), offsets, start)
            for key, change in sorted_changes:
                txn.put(key, encode_json(apply_change(_read_keys(txn, key), change)))
            txn.put(_OFFSETS_KEY, encode_json(end))

        self._write(work)

    def clear(self) -> None:
        """Remove all keys, and set the offsets to the beginning of the topics."""
        self._write(self._delete_all)

    def close(self) -> None:
        """Close the cache. Idempotent."""
        self._env.close()

    def _offsets(self, txn: Transaction) -> KeyOffsets:
        encoded = txn.get(_OFFSETS_KEY)
        return self._initial_offsets if encoded is None else msgspec.json.decode(encoded, type=KeyOffsets)

    def _delete_all(self, txn: Transaction) -> None:
        with txn.cursor() as cursor:
            has_item = cursor.first()
            while has_item:
                has_item = cursor.delete()

    def _write(self, work: Callable[[Transaction], None]) -> None:
        with translate_errors(self._path):
            write_and_enlarge_map(self._env, partial(begin_transaction, self._env, write=True), work)


def open_key_cache(path: Path, topics: tuple[str, str]) -> KeyCache:
    """Open the cache in a folder. A damaged cache is replaced by an empty cache, since the topic contains all keys."""
    try:
        return KeyCache(path, topics)
    except CorruptError:
        shutil.rmtree(path)
        return KeyCache(path, topics)


def cached_kids(path: Path) -> Iterator[str]:
    """Yield the ids of the current keys in the cache in a folder; nothing if the folder has no key cache."""
    try:
        env = lmdb.open(str(path), readonly=True, create=False, max_dbs=0)
    except lmdb.Error:
        return
    with closing(env), env.begin() as txn, txn.cursor() as cursor:
        for _, value in cursor:
            try:
                keys = msgspec.json.decode(value, type=SubjectKeys)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if keys.current is not None:
                yield keys.current.kid


def _unexpected_offsets(location: str, offsets: KeyOffsets, start: KeyOffsets) -> NotOwnerError:
    return NotOwnerError(f"the keys in {location} are at {offsets}, not at {start}")


def _key(subject: str) -> bytes:
    """Return the hash of an aggregate id: LMDB keys are limited to 511 bytes, and ids may be longer."""
    return blake2b(subject.encode(), digest_size=32).digest()


def _read_keys(txn: Transaction, key: bytes) -> SubjectKeys:
    value = txn.get(key)
    return SubjectKeys() if value is None else msgspec.json.decode(value, type=SubjectKeys)


def apply_change(keys: SubjectKeys, change: KeyChange) -> SubjectKeys:
    """Return the keys of an aggregate after a change."""
    match change:
        case KeyRecord():
            return keys.with_record(change.wrapped)
        case ErasedKey():
            return keys.with_erased(change.kid)
