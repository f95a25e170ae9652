"""Opens a partition's shard: the existing shard if it can be trusted and has the right identity, else a new shard.

A shard is a cache of the log. A shard is quarantined if it cannot be trusted, has another identity (log, code or dedup
window), or is locked by a process that was stopped during a change. Quarantine renames its folder, with time and reason
in the new name, and the owner rebuilds the shard from the log.

There are two locks. Both are on folders, so they follow a rename, and they need no lock files:

    exclusive, on the parent     while a shard is checked, created or quarantined
    shared, on the shard         while it is open. A paused owner and its successor may have it open at the same time;
                                 the token distinguishes them. Only the last process that closes the shard gets the lock
                                 exclusively, and only this process may mark the shard as clean.
"""

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import UnavailableError
from cqrs_cli.observer import reached
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.errors import (
    MOUNTS,
    REBUILD_HINT,
    CorruptError,
    reject_network_file_system,
    translate_errors,
)
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.limits import Limits
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shutdown_marker import distrust_reason, write_marker
from cqrs_cli.storage.private import PRIVATE_FOLDER
from cqrs_cli.system.lock import try_lock, wait_for_lock

#: The number of quarantined shards to keep for each partition. The log contains all their data.
KEPT_QUARANTINED = 2


class OpenShard(NamedTuple):
    """An open shard. If `is_new`, it is empty. If an old shard was quarantined: its new folder, and the reason."""

    store: "Shard"
    is_new: bool
    quarantined: Path | None = None
    reason: str = ""


def open_shard(
    path: Path,
    identity: Identity,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    mounts: Path = MOUNTS,
) -> OpenShard:
    """Open the shard in the folder `path`, or create it. The operator gets a message about each quarantined shard.

    Raises `ConfigurationError` if the folder cannot be written or is on a network file system, if the disk is full, or
    if this process has the shard open already; `UnavailableError` if another process holds the lock for too long.
    """
    reject_network_file_system(path, mounts)
    with translate_errors(path):
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        with _lock_parent(path, limits):
            shard_or_reason = _reopen(path, identity, limits) if (path / DATA_FILE).exists() else ""
            if isinstance(shard_or_reason, Shard):
                return OpenShard(shard_or_reason, is_new=False)
            quarantined = _quarantine(path, shard_or_reason) if shard_or_reason else None
            return OpenShard(_create(path, identity, limits), True, quarantined, reason=shard_or_reason)


def install_shard(
    path: Path,
    new_folder: Path,
    identity: Identity,
    reason: str = "",
    limits: Limits = Limits(),  # noqa: B008  (frozen)
) -> "Shard":
    """Replace the shard in `path` by the folder `new_folder`, which contains an LMDB file and nothing else.

    The old shard is quarantined with the `reason`, or removed if `reason` is empty. The new shard has no owner. Raises
    `CorruptError`, with nothing changed, if `new_folder` has another identity or is damaged.
    """
    with translate_errors(path), _lock_parent(path, limits):
        with closing(LmdbStore(new_folder, identity.window_ms)) as store:
            if differences := identity.differences(store.identity()):
                raise CorruptError(f"the new shard for {path} differs: {differences}", REBUILD_HINT)
            store.take_ownership("", store.token())
        if path.exists():
            _quarantine(path, reason, "for a new shard") if reason else shutil.rmtree(path)
        new_folder.rename(path)
        reached("checkpoint.installed")
        return _create(path, identity, limits)


def open_readonly(path: Path) -> LmdbStore | None:
    """Open the shard in `path` for reading, while its owner may write; None if it is missing or cannot be trusted."""
    with translate_errors(path):
        if not (path / DATA_FILE).exists():
            return None
        with _lock_parent(path, Limits()):
            if distrust_reason(path):
                return None
            try:
                return LmdbStore(path, window_ms=0, readonly=True)
            except CorruptError:
                return None


class Shard(LmdbStore):
    """An `LmdbStore` with `folder`, a descriptor of its folder, which stays valid when the folder is renamed."""

    def __init__(self, path: Path, window_ms: int, folder: int) -> None:
        super().__init__(path, window_ms)
        self._folder = folder

    def close(self) -> None:
        if not self._is_open:
            return
        reached("shard.closing")
        try:
            # First the exclusive lock, then the sync, then the marker. In this order, no process has unsynced writes
            # when the shard is marked as clean.
            is_last = try_lock(self._folder)
            super().close()
            reached("shard.closed")
            if is_last:
                write_marker(self._folder, "clean")
        except OSError:
            pass  # the folder was removed, or the disk is full: the marker still reads "working"
        finally:
            os.close(self._folder)

    def close_as_damaged(self) -> None:
        """Close the shard and mark it as damaged. The next owner that opens it quarantines it."""
        self.close_without_sync()
        write_marker(self._folder, "damaged")
        os.close(self._folder)


class _ShardOpener(threading.Thread):
    """Opens a shard in a thread, because LMDB waits for its lock without a timeout, and a stopped process keeps it."""

    def __init__(self, path: Path, open_file: Callable[[], Shard]) -> None:
        super().__init__(name=f"opening {path}", daemon=True)
        self._future: Future[Shard] = Future()
        self._open_file = open_file
        self.start()

    def run(self) -> None:
        try:
            shard = self._open_file()
        except Exception as error:
            if self._future.set_running_or_notify_cancel():
                self._future.set_exception(error)
            return
        if self._future.set_running_or_notify_cancel():
            self._future.set_result(shard)
        else:
            shard.close_without_sync()

    def result(self, timeout: float) -> Shard | None:
        """Return the shard; None after `timeout` seconds. If the thread opens the shard later, it closes the shard
        again.

        Raises the error of the thread.
        """
        self.join(timeout)
        return None if self._future.cancel() else self._future.result()


def _reopen(path: Path, identity: Identity, limits: Limits) -> Shard | str:
    """Return the existing shard in `path`, or the reason why it cannot be used."""
    with ExitStack() as undo:
        folder = _lock_shard(path, undo, limits)
        if reason := distrust_reason(path):
            return reason
        reached("shard.opening")
        write_marker(folder, "working")  # before the first write of LMDB
        try:
            store = _ShardOpener(path, partial(Shard, path, identity.window_ms, folder)).result(limits.change)
        except CorruptError as error:
            return error.message
        if store is None:
            return "a stopped process holds its lock in the middle of a change"
        undo.callback(store.close_without_sync)
        if differences := identity.differences(store.identity()):
            return differences
        undo.pop_all()
        return store


def _create(path: Path, identity: Identity, limits: Limits) -> Shard:
    """Create a shard in the folder `path`, or adopt the LMDB file that is there, and mark the shard as working."""
    with ExitStack() as undo:
        path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folder = _lock_shard(path, undo, limits)
        store = Shard(path, identity.window_ms, folder)
        undo.callback(store.close_without_sync)
        store.set_identity(encode_json(identity))
        store.sync()
        reached("shard.opening")
        # After a crash before this line the shard has no marker, so it is not trusted.
        write_marker(folder, "working")
        undo.pop_all()
        return store


def _quarantine(path: Path, reason: str, purpose: str = "to be rebuilt from the log") -> Path:
    """Quarantine a shard by renaming its folder; processes that have it open continue. Only the newest
    `KEPT_QUARANTINED` quarantined shards are kept.
    """
    time_text = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    reason_text = re.sub("[^a-z0-9]+", "-", reason.lower())[:24].strip("-")
    quarantined = path.with_name(f"{path.name}.aside-{time_text}-{reason_text}")
    path.rename(quarantined)
    reached("message", text=f"state in {path} quarantined {purpose}: {reason} ({quarantined.name})")
    for old_folder in sorted(path.parent.glob(f"{path.name}.aside-*"))[:-KEPT_QUARANTINED]:
        shutil.rmtree(old_folder)
        reached("message", text=f"removed {old_folder}, quarantined earlier")
    return quarantined


@contextmanager
def _lock_parent(path: Path, limits: Limits) -> Iterator[None]:
    """Lock the parent folder: no other process can check, create or quarantine a shard there inside the block."""
    with ExitStack() as undo:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        undo.callback(os.close, parent)
        _lock(parent, path, limits.lock)
        yield


def _lock_shard(path: Path, undo: ExitStack, limits: Limits) -> int:
    """Return a descriptor of the shard's folder with the shared lock; waits for a process that is closing the shard."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    undo.callback(os.close, folder)
    os.fchmod(folder, PRIVATE_FOLDER)  # also for folders that older versions created
    _lock(folder, path, limits.lock, shared=True)
    return folder


def _lock(folder: int, path: Path, timeout: float, *, shared: bool = False) -> None:
    if not wait_for_lock(folder, timeout, shared=shared):
        raise UnavailableError(
            f"another process has been opening or closing the state in {path} for {timeout:.0f} s",
            "end a stopped `cqrs run`, if there is one, then try again",
        )
