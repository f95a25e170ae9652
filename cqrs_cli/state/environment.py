"""Opens a shard's LMDB environment, and begins transactions in an environment that other processes use, too."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import lmdb

from cqrs_cli.state.errors import REBUILD_HINT, CorruptError
from cqrs_cli.state.lmdb_types import Transaction

_T = TypeVar("_T")

DATA_FILE: Final = "data.mdb"

#: The size of the map: address space, not disk, because the file grows as it is written. It is doubled when it is full.
MAP_SIZE: Final = 16 << 30

#: The slots for concurrent readers of a shard. A killed reader occupies its slot until a process clears it; LMDB's
#: default of 126 slots was full after 125 killed readers. An owner clears the slots with every change, and no machine
#: starts 1,000 readers between two changes. A slot takes 64 bytes of the lock file.
MAX_READERS: Final = 1_000


def open_environment(
    path: Path, map_size: int, readonly: bool, max_readers: int = MAX_READERS
) -> lmdb.Environment:
    """Open the environment in the folder `path`; raises LMDB's errors, and `CorruptError` if the file is truncated.

    The first process that opens the environment sets the size of the reader table.
    """
    # An owner reads random pages (a third faster without readahead, in a cold cache). A reader lists all pages (four
    # times as fast with readahead).
    env = lmdb.open(
        str(path),
        map_size=map_size,
        max_dbs=5,
        max_readers=max_readers,
        readonly=readonly,
        create=not readonly,
        mode=0o600,
        sync=False,
        metasync=False,
        readahead=readonly,
        max_spare_txns=2,
    )
    try:
        env.reader_check()  # the first transaction needs a slot, and killed readers may occupy all slots
        check_not_truncated(env, path)
    except BaseException:
        env.close()
        raise
    return env


def begin_transaction(env: lmdb.Environment, write: bool) -> Transaction:
    """Begin a transaction, also if another process has enlarged the map, or killed readers occupy all slots."""
    try:
        return env.begin(write=write)
    except lmdb.MapResizedError:
        env.set_mapsize(0)
    except lmdb.ReadersFullError:
        env.reader_check()
    return env.begin(write=write)


def write_and_enlarge_map(
    env: lmdb.Environment, begin_write: Callable[[], Transaction], work: Callable[[Transaction], _T]
) -> _T:
    """Do `work` in a write transaction. If the map is full, double it and repeat `work` in a new transaction."""
    while True:
        try:
            with begin_write() as txn:
                return work(txn)
        except lmdb.MapFullError:
            env.set_mapsize(2 * env.info()["map_size"])


def check_not_truncated(env: lmdb.Environment, path: Path) -> None:
    """Raise `CorruptError` for a truncated file before any page is read: a read after the file's end is a SIGBUS."""
    expected_size = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    size = (path / DATA_FILE).stat().st_size
    if size < expected_size:
        raise CorruptError(f"{path / DATA_FILE} has {size} of {expected_size} bytes", REBUILD_HINT)
