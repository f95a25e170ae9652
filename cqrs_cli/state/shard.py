"""Opening a partition's shard: the one that lies there if it may be trusted and is of this log, else a fresh one.

A shard is only ever a cache. What cannot be trusted, belongs to another log, other code or another window, or is held
by a process that was stopped in the middle of a change, is set aside under a name that says when and why, and its
owner rebuilds it from the log.

Two locks, both on folders, so they follow a rename and leave nothing behind:

    exclusive, on the parent     while a shard is judged, created or set aside
    shared, on the shard         while it is open. Several may be: a paused owner and its successor, whom the token
                                 tells apart. The last to close it finds itself alone, and only it may mark it clean.
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

from cqrs_cli import failpoints
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import UnavailableError
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.errors import MOUNTS, REBUILD, CorruptError, refuse_network, translated
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shutdown_marker import distrust, write_marker
from cqrs_cli.storage.private import PRIVATE_FOLDER
from cqrs_cli.system.lock import try_lock, wait_for_lock

#: Shards set aside that are kept for each partition: they hold nothing that the log does not.
KEPT_ASIDE = 2


class Limits(NamedTuple):
    """Seconds that opening a shard waits for other processes."""

    lock: float = 30.0  # judging a shard takes milliseconds, removing an old one perhaps a second
    change: float = 5.0  # a living owner's longest change takes a second or so: a longer one will never end


class Opened(NamedTuple):
    """An open shard. `fresh`: it is empty; then `set_aside` is what lay there before, if anything, and `reason` why."""

    store: "Shard"
    fresh: bool
    set_aside: Path | None = None
    reason: str = ""


def open_shard(
    path: Path,
    identity: Identity,
    note: Callable[[str], None] = lambda text: None,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    mounts: Path = MOUNTS,
) -> Opened:
    """Open the shard in the folder `path`, or create one there; `note` gets a line for each one set aside or removed.

    Raises `ConfigurationError` if the folder cannot be written, lies on a network file system, the disk is full or
    the shard is open in this process already; `UnavailableError` if another process keeps judging it.
    """
    refuse_network(path, mounts)
    with translated(path):
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        with _judging(path, limits):
            found = _reopen(path, identity, limits) if (path / DATA_FILE).exists() else ""
            if isinstance(found, Shard):
                return Opened(found, fresh=False)
            aside = _set_aside(path, found, note) if found else None
            return Opened(_create(path, identity, limits), True, aside, reason=found)


def install_shard(
    path: Path,
    prepared: Path,
    identity: Identity,
    reason: str = "",
    note: Callable[[str], None] = lambda text: None,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
) -> "Shard":
    """Put the folder `prepared`, which holds a whole LMDB file and no more, in the place of the shard in `path`, which
    is set aside for this `reason`, or removed without one. Nobody owns the new one.
    Raises `CorruptError`, with nothing changed, if that is not a shard with this identity.
    """
    with translated(path), _judging(path, limits):
        with closing(LmdbStore(prepared, identity.window_ms)) as store:
            if differences := identity.differences(store.identity()):
                raise CorruptError(f"the shard that is to be put into {path} differs: {differences}", REBUILD)
            store.take_ownership("", store.token())
        if path.exists():
            _set_aside(path, reason, note, "for a new one") if reason else shutil.rmtree(path)
        prepared.rename(path)
        failpoints.reached("checkpoint.installed")
        return _create(path, identity, limits)


def open_readonly(path: Path) -> LmdbStore | None:
    """The shard in `path`, readable while its owner works in another process; None if it cannot be trusted."""
    with translated(path):
        if not (path / DATA_FILE).exists():
            return None
        with _judging(path, Limits()):
            if distrust(path):
                return None
            try:
                return LmdbStore(path, window_ms=0, readonly=True)
            except CorruptError:
                return None


class Shard(LmdbStore):
    """A store that knows its folder by descriptor: it may be set aside, that is renamed, while it is open."""

    def __init__(self, path: Path, window_ms: int, folder: int) -> None:
        super().__init__(path, window_ms)
        self._folder = folder

    def close(self) -> None:
        if not self._open:
            return
        failpoints.reached("shard.closing")
        try:
            # Alone first, then synced, then marked: so nobody's unsynced write can come under a clean marker.
            alone = try_lock(self._folder)
            super().close()
            failpoints.reached("shard.closed")
            if alone:
                write_marker(self._folder, "clean")
        except OSError:
            pass  # the folder is gone, or the disk full: it stays marked as at work
        finally:
            os.close(self._folder)

    def condemn(self) -> None:
        """Let go of it as damaged: the next one to open it sets it aside."""
        self.abandon()
        write_marker(self._folder, "damaged")
        os.close(self._folder)


class _Opening(threading.Thread):
    """Opens a shard in a thread: LMDB can only wait for its lock, and a process stopped while it has it keeps it."""

    def __init__(self, path: Path, make: Callable[[], Shard]) -> None:
        super().__init__(name=f"opening {path}", daemon=True)
        self._made: Future[Shard] = Future()
        self._make = make
        self.start()

    def run(self) -> None:
        try:
            shard = self._make()
        except Exception as error:
            if self._made.set_running_or_notify_cancel():
                self._made.set_exception(error)
            return
        if self._made.set_running_or_notify_cancel():
            self._made.set_result(shard)
        else:
            shard.abandon()

    def result(self, within: float) -> Shard | None:
        """The shard, None if it takes longer; then nobody wants it any more. Raises what opening raised."""
        self.join(within)
        return None if self._made.cancel() else self._made.result()


def _reopen(path: Path, identity: Identity, limits: Limits) -> Shard | str:
    """The shard that lies in `path`, or why it will not do."""
    with ExitStack() as undo:
        folder = _hold(path, undo, limits)
        if reason := distrust(path):
            return reason
        failpoints.reached("shard.opening")
        write_marker(folder, "working")  # before LMDB writes anything
        try:
            store = _Opening(path, partial(Shard, path, identity.window_ms, folder)).result(limits.change)
        except CorruptError as error:
            return error.message
        if store is None:
            return "a stopped process holds it in the middle of a change"
        undo.callback(store.abandon)
        if differences := identity.differences(store.identity()):
            return differences
        undo.pop_all()
        return store


def _create(path: Path, identity: Identity, limits: Limits) -> Shard:
    with ExitStack() as undo:
        path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folder = _hold(path, undo, limits)
        store = Shard(path, identity.window_ms, folder)
        undo.callback(store.abandon)
        store.note_identity(encode_json(identity))
        store.sync()
        failpoints.reached("shard.opening")
        write_marker(folder, "working")  # a crash before this leaves no marker, hence no trust
        undo.pop_all()
        return store


def _set_aside(
    path: Path, reason: str, note: Callable[[str], None], then: str = "to be rebuilt from the log"
) -> Path:
    """Rename the folder; a process that has it open continues there. Old ones beyond `KEPT_ASIDE` are removed."""
    when = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    why = re.sub("[^a-z0-9]+", "-", reason.lower())[:40].strip("-")
    aside = path.with_name(f"{path.name}.aside-{when}-{why}")
    path.rename(aside)
    note(f"state in {path} set aside as {aside.name}, {then}: {reason}")
    for old in sorted(path.parent.glob(f"{path.name}.aside-*"))[:-KEPT_ASIDE]:
        shutil.rmtree(old)
        note(f"removed {old}, set aside earlier")
    return aside


@contextmanager
def _judging(path: Path, limits: Limits) -> Iterator[None]:
    """Keep other processes from judging, creating or setting aside a shard in the same parent folder."""
    with ExitStack() as undo:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        undo.callback(os.close, parent)
        _lock(parent, path, limits.lock)
        yield


def _hold(path: Path, undo: ExitStack, limits: Limits) -> int:
    """A descriptor of the shard's folder, locked as one that is open; waits for one who is just closing it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    undo.callback(os.close, folder)
    os.fchmod(folder, PRIVATE_FOLDER)  # one that was made before this rule, too
    _lock(folder, path, limits.lock, shared=True)
    return folder


def _lock(folder: int, path: Path, limit: float, *, shared: bool = False) -> None:
    if not wait_for_lock(folder, limit, shared=shared):
        raise UnavailableError(
            f"another process has been opening or closing the state in {path} for {limit:.0f} s",
            "see whether a stopped `cqrs run` is left over, then try again",
        )
