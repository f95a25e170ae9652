"""A shard's LMDB environment: opened with its limits, and transactions that begin although others use it, too."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import lmdb

from cqrs_cli.state.errors import REBUILD, CorruptError
from cqrs_cli.state.lmdb_types import Transaction

_T = TypeVar("_T")

DATA_FILE: Final = "data.mdb"

#: Address space, not disk: the file grows as it is written. Doubled when full.
MAP_SIZE: Final = 16 << 30

#: Looks into one shard at a time, killed ones included until somebody clears them away. LMDB's own 126 were full after
#: 125 killed readers. An owner clears them with every change, so a thousand is more than any machine runs between two;
#: they take 64 bytes each of the lock file.
MAX_READERS: Final = 1_000


def open_environment(
    path: Path, map_size: int, readonly: bool, max_readers: int = MAX_READERS
) -> lmdb.Environment:
    """The environment in the folder `path`; raises LMDB's errors, and `CorruptError` if the file was cut short.

    The process that opens the environment first sets the size of the reader table.
    """
    # readahead: an owner looks up here and there (cold, a third faster without), a reader lists everything
    # (cold, four times as fast with)
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
        env.reader_check()  # the first transaction needs a slot, and the dead may have all of them
        check_length(env, path)
    except BaseException:
        env.close()
        raise
    return env


def begin(env: lmdb.Environment, write: bool) -> Transaction:
    """A transaction, also after another process has grown the map, or killed readers have filled the table."""
    try:
        return env.begin(write=write)
    except lmdb.MapResizedError:
        env.set_mapsize(0)
    except lmdb.ReadersFullError:
        env.reader_check()
    return env.begin(write=write)


def write_growing(
    env: lmdb.Environment, begun: Callable[[], Transaction], work: Callable[[Transaction], _T]
) -> _T:
    """Do `work` in a transaction that `begun` gives; again from its beginning whenever the map had to grow."""
    while True:
        try:
            with begun() as txn:
                return work(txn)
        except lmdb.MapFullError:
            env.set_mapsize(2 * env.info()["map_size"])


def check_length(env: lmdb.Environment, path: Path) -> None:
    """Refuse a file that was cut short, before a page is touched: beyond its end waits SIGBUS."""
    needed = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    found = (path / DATA_FILE).stat().st_size
    if found < needed:
        raise CorruptError(f"{path / DATA_FILE} has {found} of {needed} bytes", REBUILD)
