"""Searches files for data of erased aggregates: shards, caches of data keys, checkpoints, payloads, databases."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import lmdb

from cqrs_cli.codec.ciphertext import kids_of_data
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.plan import KEYS_SUFFIX
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.proof.erased import ErasedAggregate, ErasedAggregates, surviving_key_text
from cqrs_cli.proof.keys import find_state_problems
from cqrs_cli.scans.erased.search_patterns import SearchPatterns
from cqrs_cli.state.checkpoint.manifest import DATA_SUFFIX
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.key_cache import cached_kids
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.storage.folder import StorageFolder, file_chunks

#: The magic number of LMDB files, in this machine's byte order, and its offset in the file, in bytes.
_MAGIC, _MAGIC_OFFSET = (0xBEEFC0DE).to_bytes(4, sys.byteorder), 16


class FileFinding(NamedTuple):
    """Data of an erased aggregate in a file, and its location."""

    location: str
    problem: str

    def __str__(self) -> str:
        return f"{self.location}: {self.problem}"


@dataclass(frozen=True, slots=True)
class FileSearch:
    """A search of files for the texts of erased values, the ids of deleted data keys, and states of erased aggregates.

    Deleted keys in an owner's key cache are no violations: the owner removes them when it starts, before it decides.
    `deleted_key_counts` counts them.
    """

    patterns: SearchPatterns
    erased: ErasedAggregates
    state: type[State]  # the aggregate's state class
    shards_folder: Path  # folder of the owners' shards and key caches
    #: Folder of an owner's key cache → number of deleted keys in it.
    deleted_key_counts: dict[str, int] = field(default_factory=dict)

    def search_path(self, path: Path) -> Iterator[FileFinding]:
        """Search a file, or all files of a folder; raise `ConfigurationError` if the path does not exist."""
        if not path.exists():
            raise ConfigurationError(
                f"{path} does not exist, so it cannot be searched", "choose another path"
            )
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with suppress(FileNotFoundError):  # a running owner replaces files
                    yield from self._search_file(file)

    def _search_file(self, file: Path) -> Iterator[FileFinding]:
        yield from self._search_bytes(file_chunks(file), str(file))
        if file.name == DATA_FILE:
            yield from self._search_lmdb(file.parent, str(file.parent))
        elif _is_lmdb(file):  # a checkpoint, or a copy of a shard
            with _linked_folder(file) as folder:
                yield from self._search_lmdb(folder, str(file))

    def _search_bytes(self, chunks: Iterable[bytes], location: str) -> Iterator[FileFinding]:
        if (byte_offset := self.patterns.find_in(chunks)) is not None:
            yield FileFinding(f"{location} byte {byte_offset}", "has an erased value in plain text")

    def _search_lmdb(self, folder: Path, location: str) -> Iterator[FileFinding]:
        deleted_kids = [kid for kid in cached_kids(folder) if kid in self.erased.kids]
        if deleted_kids and self._is_owned_cache(folder):
            self.deleted_key_counts[location] = len(deleted_kids)
        else:
            for kid in deleted_kids:
                problem = f"a key cache has the deleted data key {kid}: whoever has the keyring can decrypt the values"
                yield FileFinding(location, problem)
        try:
            store = LmdbStore(folder, window_ms=1, readonly=True)
        except (CqrsError, lmdb.Error):
            return  # an LMDB file that is not a shard
        with closing(store):
            for aggregate_id, stored_state in store.items():
                if (aggregate := self.erased.get(aggregate_id)) is not None:
                    for problem in self._search_state(aggregate, stored_state):
                        yield FileFinding(location, f"a shard {problem}, of {aggregate_id!r}")

    def _is_owned_cache(self, cache: Path) -> bool:
        """True for a key cache that an owner reads when it starts; False for a copied or quarantined key cache."""
        return cache.parent == self.shards_folder and cache.suffix == KEYS_SUFFIX and cache.stem.isdigit()

    def _search_state(self, aggregate: ErasedAggregate, stored_state: StoredState) -> Iterator[str]:
        yield from find_state_problems(aggregate.key_entry, self.state, stored_state)
        with suppress(ValueError):  # `find_state_problems` has reported the unreadable state
            if (
                kid := aggregate.surviving_key(kids_of_data(stored_state.state), stored_state.version)
            ) is not None:
                yield f"has a state encrypted with {surviving_key_text(kid)}"

    def search_store(self, folder: StorageFolder) -> Iterator[FileFinding]:
        """Search the files of a folder in object storage; a checkpoint is first downloaded to the local disk."""
        for file in folder.files():
            location, chunks = f"{folder.uri}/{file.name}", folder.chunks(file.name)
            if file.name.endswith(DATA_SUFFIX):
                with TemporaryDirectory() as temporary:
                    copy = Path(temporary, DATA_FILE)
                    with copy.open("wb") as stream:
                        stream.writelines(chunks)
                    yield from self._search_bytes(file_chunks(copy), location)
                    yield from self._search_lmdb(copy.parent, location)
            else:
                yield from self._search_bytes(chunks, location)


def _is_lmdb(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(_MAGIC_OFFSET + len(_MAGIC)).endswith(_MAGIC)


@contextmanager
def _linked_folder(file: Path) -> Iterator[Path]:
    """Yield a temporary folder with a link to the file, under the name that LMDB expects. LMDB creates its lock file in
    the temporary folder.
    """
    with TemporaryDirectory() as folder:
        Path(folder, DATA_FILE).symlink_to(file.absolute())
        yield Path(folder)
