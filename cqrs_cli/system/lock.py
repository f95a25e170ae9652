"""Locks between processes, on files and folders. The operating system releases a lock when its holder dies."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cqrs_cli.errors import UnavailableError


@contextmanager
def file_lock(path: Path, on_wait: Callable[[], None], timeout: float) -> Iterator[None]:
    """Hold the lock during the block. `on_wait` is called once if another process holds the lock.

    Raises `UnavailableError` after `timeout` seconds, `OSError` if the file cannot be opened.
    """
    deadline = time.monotonic() + timeout
    has_reported = False
    with path.open("a") as file:  # closing releases the lock; the file stays, since removing it would race
        while not try_lock(file.fileno()):
            if not has_reported:
                on_wait()
                has_reported = True
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"another command has held {path} for {timeout:.0f} s", "wait for it, or end it"
                )
            time.sleep(0.05)
        yield


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder without waiting; False if another holder has the lock."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(folder: Path) -> bool:
    """True if a process holds a lock of the folder; False also if the folder does not exist."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int, timeout: float, *, shared: bool = False) -> bool:
    """Lock an open file or folder; False if another holder has had the lock for `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
