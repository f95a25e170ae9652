"""Locks between processes, on files and folders; the system lets go of them when their holder dies."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cqrs_cli.errors import UnavailableError


@contextmanager
def file_lock(path: Path, waiting: Callable[[], None], limit: float) -> Iterator[None]:
    """Hold the lock for the block. `waiting` is called once if another process holds it.

    Raises `UnavailableError` after `limit` seconds, `OSError` when the file cannot be opened.
    """
    deadline = time.monotonic() + limit
    noted = False
    with path.open("a") as file:  # closing it lets the lock go; the file stays, since removing it would race
        while not try_lock(file.fileno()):
            if not noted:
                waiting()
                noted = True
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"another command has held {path} for {limit:.0f} s", "wait for it, or end it"
                )
            time.sleep(0.05)
        yield


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file or folder if nobody else holds it; False if somebody does."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(folder: Path) -> bool:
    """True if somebody holds a lock of the folder now; False also without one."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int, limit: float, *, shared: bool = False) -> bool:
    """Take the lock of an open file or folder; False if somebody else has held it for `limit` seconds."""
    deadline = time.monotonic() + limit
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
