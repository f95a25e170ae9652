"""One process at a time: a lock on a file, which the system lets go when its holder dies."""

import fcntl
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
    told = False
    with path.open("a") as file:  # closing it lets the lock go; the file stays, since removing it would race
        while not _taken(file.fileno()):
            if not told:
                waiting()
                told = True
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"another command has held {path} for {limit:.0f} s", "wait for it, or end it"
                )
            time.sleep(0.05)
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
