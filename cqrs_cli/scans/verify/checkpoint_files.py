"""The files of a partition's verification checkpoint (`verify --incremental`): LMDB files, and a file `carried`."""

import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import lmdb
import msgspec
from msgspec import Struct

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.proof.index_entries import timestamp_of
from cqrs_cli.proof.verification_checkpoint import VerificationCheckpoint
from cqrs_cli.state.entry_index import EntryIndex
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.storage.private import PRIVATE_FOLDER, atomic_write, sync_folder

#: The name of the file with the checkpoint, and of the LMDB folder with versions and command ids.
_CHECKPOINT_FILE, _STORE = "carried", "versions"
#: The logs with index entries. The index of each log has its own LMDB folder.
INDEXED_LOGS = ("outcomes", "events", "dead-letters")
_SUM_BYTES = 4
_READ_BYTES = 1 << 20


class _CheckpointFile(Struct, frozen=True, rename={"checkpoint": "carried"}):
    """The content of the file `carried`: the checkpoint, and a checksum of each LMDB file."""

    checkpoint: VerificationCheckpoint
    sums: dict[str, int]  # LMDB file → checksum


@contextmanager
def folder_errors(folder: Path) -> Iterator[None]:
    """Convert errors of the operating system and of LMDB into `ConfigurationError`."""
    try:
        yield
    except (OSError, CorruptError, lmdb.Error) as error:
        raise ConfigurationError(f"{folder} cannot be used: {error}", "choose a new folder") from error


def load_checkpoint(folder: Path) -> VerificationCheckpoint:
    """Read the checkpoint of a partition; raise `ConfigurationError` if a checksum does not match."""
    file = folder / _CHECKPOINT_FILE
    with folder_errors(folder):
        content = file.read_bytes()
        stored_checksum, encoded = content[:_SUM_BYTES], content[_SUM_BYTES:]
        if not encoded or stored_checksum != _checksum(encoded):
            raise _damaged(file)
        stored = msgspec.msgpack.decode(encoded, type=_CheckpointFile)
        for name, checksum in _checksums(folder).items():
            if checksum != stored.sums[name]:
                raise _damaged(folder / name / DATA_FILE)
    return stored.checkpoint


def write_checkpoint_file(folder: Path, checkpoint: VerificationCheckpoint) -> None:
    """Write the file `carried` of a partition. The LMDB files must already be complete."""
    encoded = msgspec.msgpack.encode(_CheckpointFile(checkpoint, _checksums(folder)))
    with atomic_write(folder / _CHECKPOINT_FILE) as file:
        file.write(_checksum(encoded) + encoded)


def _checksums(folder: Path) -> dict[str, int]:
    """Return the checksums of a partition's LMDB files, over all bytes."""
    sums = {}
    for name in (_STORE, *INDEXED_LOGS):
        sums[name] = 0
        with (folder / name / DATA_FILE).open("rb") as file:
            while block := file.read(_READ_BYTES):
                sums[name] = zlib.crc32(block, sums[name])
    return sums


def _checksum(encoded: bytes) -> bytes:
    return zlib.crc32(encoded).to_bytes(_SUM_BYTES, "big")


def _damaged(file: Path) -> ConfigurationError:
    return ConfigurationError(f"{file} is damaged", "choose a new folder: everything is verified again")


class LmdbFolders(NamedTuple):
    """The folders of a partition's LMDB files."""

    store: Path  # folder of the versions and command ids
    indexes: tuple[Path, ...]  # folders of the index entries, in the order of `INDEXED_LOGS`


def create_checkpoint_folder(folder: Path, source: Path | None) -> LmdbFolders:
    """Create an empty folder for a partition, then copy the LMDB files of the folder `source` into it, if given."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=PRIVATE_FOLDER)
    for name in (_STORE, *INDEXED_LOGS):
        (folder / name).mkdir(mode=PRIVATE_FOLDER)
        if source is not None:
            shutil.copyfile(source / name / DATA_FILE, folder / name / DATA_FILE)
    return LmdbFolders(folder / _STORE, tuple(folder / name for name in INDEXED_LOGS))


def write_checkpoint(folder: Path, checkpoint: VerificationCheckpoint, indexes: Iterable[EntryIndex]) -> None:
    """Write the checkpoint of a partition. The store of versions and command ids must already be closed.

    `indexes`: the open indexes in `folder`, in the order of `INDEXED_LOGS`.
    """
    for name, index in zip(INDEXED_LOGS, indexes, strict=True):
        index.drop(list(_unneeded_entries(name, index, checkpoint)))
        index.sync()
        sync_folder(folder / name)
    sync_folder(folder / _STORE)
    write_checkpoint_file(folder, checkpoint)


def _unneeded_entries(name: str, index: EntryIndex, checkpoint: VerificationCheckpoint) -> Iterator[int]:
    """Yield the offsets of the commands whose index entries the next verification does not need.

    The scan of outcomes ends at the first outcome to which a duplicate may still refer. So it reads only the entries
    that became too old since the last verification, not the whole dedup window.
    """
    open_command = None if checkpoint.open_events is None else checkpoint.open_events[0]
    for command, entry in index.entries():
        if command >= checkpoint.verified_until:
            if name == "events" and command == open_command:
                yield command
        elif name != "outcomes":
            yield command
        elif timestamp_of(entry) >= checkpoint.oldest_original:
            return
        elif command not in checkpoint.open_deferrals:
            yield command
