"""A reader's keys on disk, wrapped as in the topic: `KnownKeys` by subject, in LMDB, beside the shard.

It is a store of its own, and never part of a checkpoint: a copy of before an erasure would hold the key. An owner
writes here before he writes the shard. So the cache has seen each `Erased` that the shard has seen, and may be ahead.

Every change is synced: keys change rarely, and what is half written needs no marker then.
"""

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import lmdb
import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.keys.topic import KnownKeys, WrappedKey
from cqrs_cli.state.environment import begin, check_length, write_growing
from cqrs_cli.state.errors import CorruptError, translated
from cqrs_cli.state.lmdb_types import Transaction
from cqrs_cli.state.store import NotOwnerError

#: Address space, not disk. Doubled when full.
_MAP_SIZE = 1 << 26

#: Keys of subjects are hashes of this length, so this one is none.
_HEAD = b"head"

_by_key: Callable[[tuple[bytes, object]], bytes] = itemgetter(0)


class KeyOffsets(Struct, frozen=True):
    """The offsets up to which keys and events were read, in the topics with these ids."""

    topics: tuple[str, str]
    keys: int = 0
    events: int = 0


class KeyRecord(NamedTuple):
    """A record of the keys topic."""

    subject: str
    wrapped: WrappedKey | None


class EndedKey(NamedTuple):
    """An `Erased` in the events: the key that it names."""

    subject: str
    kid: str


KeyChange: TypeAlias = KeyRecord | EndedKey


class KeyStore(Protocol):
    """The known keys of one partition of a keys topic, and the offset up to which it was read."""

    @property
    def offsets(self) -> KeyOffsets:
        """The offsets up to which it has read."""

    def known(self, subject: str) -> KnownKeys:
        """The known keys of an aggregate."""

    def apply(self, start: KeyOffsets, end: KeyOffsets, changes: Iterable[KeyChange]) -> None:
        """Change what is known from one place to the next, all or nothing; raises `NotOwnerError`."""

    def forget(self) -> None:
        """Begin again, with nothing."""

    def close(self) -> None:
        """Let go. Idempotent."""


class MemoryKeys:
    """The same in memory, for a partition whose store is there."""

    def __init__(self, topics: tuple[str, str]) -> None:
        """`topics`: the ids of the keys topic and of the events topic."""
        self._empty = self.offsets = KeyOffsets(topics)
        self._known: dict[str, KnownKeys] = {}

    def known(self, subject: str) -> KnownKeys:
        return self._known.get(subject, KnownKeys())

    def apply(self, start: KeyOffsets, end: KeyOffsets, changes: Iterable[KeyChange]) -> None:
        if self.offsets != start:
            raise _moved("memory", self.offsets, start)
        for change in changes:
            self._known[change.subject] = changed(self.known(change.subject), change)
        self.offsets = end

    def forget(self) -> None:
        self._known, self.offsets = {}, self._empty

    def close(self) -> None:
        self._known = {}


class KeyCache:
    """Lies in the folder `path`, which it makes. What was read of other topics than these is dropped."""

    def __init__(self, path: Path, topics: tuple[str, str], map_size: int = _MAP_SIZE) -> None:
        """`topics`: the ids of the keys topic and of the events topic."""
        self._path = path
        with translated(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._env = lmdb.open(str(path), map_size=map_size, mode=0o600)
            check_length(self._env, path)
        self._empty = KeyOffsets(topics)
        if self.offsets.topics != topics:
            self._write(self._drop)

    @property
    def offsets(self) -> KeyOffsets:
        """The offsets up to which it has read."""
        with translated(self._path), begin(self._env, write=False) as txn:
            return self._offsets(txn)

    def known(self, subject: str) -> KnownKeys:
        """The known keys of an aggregate."""
        with translated(self._path), begin(self._env, write=False) as txn:
            return _known(txn, _key(subject))

    def apply(self, start: KeyOffsets, end: KeyOffsets, changes: Iterable[KeyChange]) -> None:
        """Change what is known from one place to the next, in one transaction.

        Raises `NotOwnerError` if the cache is at another place than `start`: somebody else writes it.
        """
        # Neighbours share pages: each page is found once. Those of one aggregate stay in their order.
        listed = sorted(((_key(change.subject), change) for change in changes), key=_by_key)

        def work(txn: Transaction) -> None:
            if (found := self._offsets(txn)) != start:
                raise _moved(str(self._path), found, start)
            for key, change in listed:
                txn.put(key, encode_json(changed(_known(txn, key), change)))
            txn.put(_HEAD, encode_json(end))

        self._write(work)

    def forget(self) -> None:
        """Begin again, with nothing."""
        self._write(self._drop)

    def close(self) -> None:
        """Let go. Idempotent."""
        self._env.close()

    def _offsets(self, txn: Transaction) -> KeyOffsets:
        head = txn.get(_HEAD)
        return self._empty if head is None else msgspec.json.decode(head, type=KeyOffsets)

    def _drop(self, txn: Transaction) -> None:
        with txn.cursor() as cursor:
            there = cursor.first()
            while there:
                there = cursor.delete()

    def _write(self, work: Callable[[Transaction], None]) -> None:
        with translated(self._path):
            write_growing(self._env, partial(begin, self._env, write=True), work)


def open_keys(path: Path, topics: tuple[str, str]) -> KeyCache:
    """The cache in a folder; a new one in place of one that is damaged: all of it is in the topic."""
    try:
        return KeyCache(path, topics)
    except CorruptError:
        shutil.rmtree(path)
        return KeyCache(path, topics)


def _moved(place: str, found: KeyOffsets, start: KeyOffsets) -> NotOwnerError:
    return NotOwnerError(f"the keys in {place} are at {found}, not at {start}")


def _key(subject: str) -> bytes:
    """LMDB's keys are short, and ids of aggregates are not."""
    return blake2b(subject.encode(), digest_size=32).digest()


def _known(txn: Transaction, key: bytes) -> KnownKeys:
    value = txn.get(key)
    return KnownKeys() if value is None else msgspec.json.decode(value, type=KnownKeys)


def changed(known: KnownKeys, change: KeyChange) -> KnownKeys:
    match change:
        case KeyRecord():
            return known.with_record(change.wrapped)
        case EndedKey():
            return known.with_erased(change.kid)
