"""The data of a partition that `verify --incremental` keeps: LMDB files, a file with the rest, their checksums."""

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
from cqrs_cli.proof.carried import Carried
from cqrs_cli.proof.traces import time_of
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.trace_index import TraceIndex
from cqrs_cli.storage.private import PRIVATE_FOLDER, replaced, sync_folder

_CARRIED_FILE, _STORE = "carried", "versions"
#: The logs whose records are traced, in a folder each.
TRACES = ("outcomes", "events", "dead-letters")
_SUM_BYTES = 4
_READ_BYTES = 1 << 20


class _Kept(Struct, frozen=True):
    """The file of a partition: what was carried, and a checksum of each of the other files."""

    carried: Carried
    sums: dict[str, int]


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Turn the system's errors about a folder into `ConfigurationError`."""
    try:
        yield
    except (OSError, CorruptError, lmdb.Error) as error:
        raise ConfigurationError(f"{folder} cannot be used: {error}", "name a new folder") from error


def load_carried(folder: Path) -> Carried:
    """The remains of an earlier verify of a partition; raises `ConfigurationError` if a byte of it is damaged."""
    file = folder / _CARRIED_FILE
    with usable(folder):
        content = file.read_bytes()
        found, encoded = content[:_SUM_BYTES], content[_SUM_BYTES:]
        if not encoded or found != _sum_of(encoded):
            raise _damaged(file)
        kept = msgspec.msgpack.decode(encoded, type=_Kept)
        for name, sum in _sums(folder).items():
            if sum != kept.sums[name]:
                raise _damaged(folder / name / DATA_FILE)
    return kept.carried


def keep(folder: Path, carried: Carried) -> None:
    """Write the file of a partition, whose other files are whole by now."""
    encoded = msgspec.msgpack.encode(_Kept(carried, _sums(folder)))
    with replaced(folder / _CARRIED_FILE) as file:
        file.write(_sum_of(encoded) + encoded)


def _sums(folder: Path) -> dict[str, int]:
    """The checksums of a partition's LMDB files, over all their bytes."""
    sums = {}
    for name in (_STORE, *TRACES):
        sums[name] = 0
        with (folder / name / DATA_FILE).open("rb") as file:
            while some := file.read(_READ_BYTES):
                sums[name] = zlib.crc32(some, sums[name])
    return sums


def _sum_of(encoded: bytes) -> bytes:
    return zlib.crc32(encoded).to_bytes(_SUM_BYTES, "big")


def _damaged(file: Path) -> ConfigurationError:
    return ConfigurationError(f"{file} is damaged", "name a new folder: all is proved again")


class Folders(NamedTuple):
    """The folders of a partition's LMDB files: versions and ids; traces of outcomes, events and dead letters."""

    store: Path
    traces: tuple[Path, ...]


def begin_folder(folder: Path, before: Path | None) -> Folders:
    """A new folder for a partition, whose LMDB files begin as copies of the files in `before`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=PRIVATE_FOLDER)
    for name in (_STORE, *TRACES):
        (folder / name).mkdir(mode=PRIVATE_FOLDER)
        if before is not None:
            shutil.copyfile(before / name / DATA_FILE, folder / name / DATA_FILE)
    return Folders(folder / _STORE, tuple(folder / name for name in TRACES))


def leave(folder: Path, carried: Carried, traces: Iterable[TraceIndex]) -> None:
    """Keep what the next verify needs of a partition. `traces` lie in `folder`; the store must be closed by now."""
    for name, index in zip(TRACES, traces, strict=True):
        index.drop(list(_done_with(name, index, carried)))
        index.sync()
        sync_folder(folder / name)
    sync_folder(folder / _STORE)
    keep(folder, carried)


def _done_with(name: str, index: TraceIndex, carried: Carried) -> Iterator[int]:
    """The commands whose traces nobody needs any more.

    Outcomes are looked at as far as the first that may be repeated: so this takes the time of a day, not of a window.
    """
    still_open = None if carried.open_events is None else carried.open_events[0]
    for command, trace in index.items():
        if command >= carried.commands:
            if name == "events" and command == still_open:
                yield command
        elif name != "outcomes":
            yield command
        elif time_of(trace) >= carried.oldest:
            return
        elif command not in carried.deferred:
            yield command
