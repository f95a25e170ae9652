"""Search files for data of erased aggregates: shards, caches of data keys, checkpoints, payloads, databases."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import lmdb
import msgspec

from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.personal.encrypted_data import kids_in
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.plan import KEYS_SUFFIX
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.keys.topic import KeyTable
from cqrs_cli.proof.erased import ErasedAggregate, ErasedAggregates, still_opens
from cqrs_cli.proof.keys import state_faults
from cqrs_cli.scans.erased.needles import Needles
from cqrs_cli.state.checkpoint.manifest import DATA_SUFFIX
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.storage.folder import StorageFolder, file_chunks

#: The magic number of LMDB files and its offset, in this machine's byte order.
_MAGIC, _MAGIC_AT = (0xBEEFC0DE).to_bytes(4, sys.byteorder), 16


class FileFinding(NamedTuple):
    """Data of an erased aggregate in a file, and its location."""

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass(frozen=True, slots=True)
class FilesLook:
    """A search of files: values by their texts, data keys by their ids, and the aggregates in shards.

    `shards`: the folder of the owners' shards and key caches. `caches`: the number of deleted keys in each cache of an
    owner. They are no violations, because an owner drops them when it starts, before it decides.
    """

    needles: Needles
    erased: ErasedAggregates
    state: type[State]
    shards: Path
    caches: dict[str, int] = field(default_factory=dict)

    def look_in(self, path: Path) -> Iterator[FileFinding]:
        """Search a file, or all files of a folder; raise `ConfigurationError` if the path does not exist."""
        if not path.exists():
            raise ConfigurationError(
                f"{path} does not exist: nothing can be looked for in it", "name another"
            )
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with suppress(FileNotFoundError):  # a running owner replaces files
                    yield from self._in_file(file)

    def _in_file(self, file: Path) -> Iterator[FileFinding]:
        yield from self._in_bytes(file_chunks(file), str(file))
        if file.name == DATA_FILE:
            yield from self._in_lmdb(file.parent, str(file.parent))
        elif _is_lmdb(file):  # a checkpoint, or a copy of a shard
            with _folder_with(file) as folder:
                yield from self._in_lmdb(folder, str(file))

    def _in_bytes(self, chunks: Iterable[bytes], place: str) -> Iterator[FileFinding]:
        if (at := self.needles.find(chunks)) is not None:
            yield FileFinding(f"{place} byte {at}", "has an erased value in plain text")

    def _in_lmdb(self, folder: Path, place: str) -> Iterator[FileFinding]:
        kids = [key.current.kid for key in _cached_keys(folder) if key.current is not None]
        ended = [kid for kid in kids if kid in self.erased.kids]
        if ended and self._is_owners(folder):
            self.caches[place] = len(ended)
        else:
            for kid in ended:
                what = f"a cache of keys has key {kid}, which was ended: whoever has the ring can read"
                yield FileFinding(place, what)
        try:
            store = LmdbStore(folder, window_ms=1, readonly=True)
        except (CqrsError, lmdb.Error):
            return  # another LMDB file
        with closing(store):
            for name, saved in store.items():
                if (one := self.erased.get(name)) is not None:
                    for what in self._in_state(one, saved):
                        yield FileFinding(place, f"a shard {what}, of {name!r}")

    def _is_owners(self, cache: Path) -> bool:
        """True for a cache that an owner reads when it starts; False for a copied or quarantined cache."""
        return cache.parent == self.shards and cache.suffix == KEYS_SUFFIX and cache.stem.isdigit()

    def _in_state(self, one: ErasedAggregate, saved: StoredState) -> Iterator[str]:
        yield from state_faults(one.trace, self.state, saved)
        with suppress(ValueError):  # already reported by `state_faults`
            if (kid := one.opens(kids_in(saved.state), saved.version)) is not None:
                yield f"has a state sealed with {still_opens(kid)}"

    def look_in_store(self, folder: StorageFolder) -> Iterator[FileFinding]:
        """Search the files of a folder in object storage; a checkpoint is first downloaded to the local disk."""
        for file in folder.files():
            place, chunks = f"{folder.uri}/{file.name}", folder.chunks(file.name)
            if file.name.endswith(DATA_SUFFIX):
                with TemporaryDirectory() as fetched:
                    copy = Path(fetched, DATA_FILE)
                    with copy.open("wb") as opened:
                        opened.writelines(chunks)
                    yield from self._in_bytes(file_chunks(copy), place)
                    yield from self._in_lmdb(copy.parent, place)
            else:
                yield from self._in_bytes(chunks, place)


def _is_lmdb(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(_MAGIC_AT + len(_MAGIC)).endswith(_MAGIC)


@contextmanager
def _folder_with(file: Path) -> Iterator[Path]:
    """Yield a temporary folder with a link to the file, under the name that LMDB expects. LMDB creates its lock file in
    the temporary folder.
    """
    with TemporaryDirectory() as folder:
        Path(folder, DATA_FILE).symlink_to(file.absolute())
        yield Path(folder)


def _cached_keys(folder: Path) -> Iterator[KeyTable]:
    """Yield the entries of a cache of data keys; none for any other LMDB file."""
    try:
        env = lmdb.open(str(folder), readonly=True, create=False, max_dbs=0)
    except lmdb.Error:
        return
    with closing(env), env.begin() as txn, txn.cursor() as cursor:
        for _, value in cursor:
            try:
                yield msgspec.json.decode(value, type=KeyTable)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
