"""A reader's keys on disk, wrapped as in the topic: `KnownKeys` by subject, in LMDB, beside the shard.

It is a store of its own, and never part of a checkpoint: a copy of before an erasure would hold the key. An owner
writes here before he writes the shard. So the cache has seen each `Erased` that the shard has seen, and may be ahead.

Every change is synced: keys change rarely, and what is half written needs no marker then.
"""

from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeAlias

import lmdb
import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.topic import KnownKeys, WrappedKey
from cqrs_cli.state.environment import begin, write_growing
from cqrs_cli.state.errors import translated
from cqrs_cli.state.lmdb_types import Transaction

#: Address space, not disk. Doubled when full.
_MAP_SIZE = 1 << 30

#: Keys of subjects are hashes of this length, so this one is none.
_HEAD = b"head"


class KeyOffsets(Struct, frozen=True):
    """How far the keys and the events were read, in the topics with these ids."""

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


class KeyCache:
    """Lies in the folder `path`, which it makes. What was read of other topics than these is dropped."""

    def __init__(self, path: Path, topics: tuple[str, str], map_size: int = _MAP_SIZE) -> None:
        """`topics`: the ids of the keys topic and of the events topic."""
        self._path = path
        with translated(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._env = lmdb.open(str(path), map_size=map_size, mode=0o600)
        self._empty = KeyOffsets(topics)
        if self.offsets.topics != topics:
            self._write(self._drop)

    @property
    def offsets(self) -> KeyOffsets:
        """How far it has read."""
        with translated(self._path), self._env.begin() as txn:
            return self._offsets(txn)

    def known(self, subject: str) -> KnownKeys:
        """The known keys of an aggregate."""
        with translated(self._path), self._env.begin() as txn:
            return _known(txn, _key(subject))

    def apply(self, start: KeyOffsets, end: KeyOffsets, changes: Iterable[KeyChange]) -> None:
        """Change what is known from one place to the next, in one transaction.

        Raises `ContradictionError` if the cache is at another place than `start`: somebody else writes it.
        """
        listed = list(changes)

        def work(txn: Transaction) -> None:
            if (found := self._offsets(txn)) != start:
                raise ContradictionError(
                    f"the keys in {self._path} are at {found}, not at {start}", "end the other process"
                )
            for change in listed:
                key = _key(change.subject)
                txn.put(key, encode_json(_changed(_known(txn, key), change)))
            txn.put(_HEAD, encode_json(end))

        self._write(work)

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


def _key(subject: str) -> bytes:
    """LMDB's keys are short, and ids of aggregates are not."""
    return blake2b(subject.encode(), digest_size=32).digest()


def _known(txn: Transaction, key: bytes) -> KnownKeys:
    value = txn.get(key)
    return KnownKeys() if value is None else msgspec.json.decode(value, type=KnownKeys)


def _changed(known: KnownKeys, change: KeyChange) -> KnownKeys:
    match change:
        case KeyRecord():
            return known.with_record(change.wrapped)
        case EndedKey():
            return known.with_erased(change.kid)
