"""The log of a Spark session: the output of Spark's JVM and of its workers.

Each session has its own log. The logs of earlier sessions are kept, because a service manager may restart a run before
an operator has read the reason of its end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count, pairwise
from pathlib import Path

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.storage.private import PRIVATE_FILE, PRIVATE_FOLDER, opener
from cqrs_cli.system.lock import try_lock

#: The number of earlier logs to keep. `run.log.1` is the log of the previous session.
KEPT_LOGS = 3


@contextmanager
def session_log(log: Path) -> Iterator[tuple[Path, int]]:
    """Yield the path and the file descriptor of an empty log: `run.log`, or `run.2.log` while another session uses
    `run.log`.

    Raises `ConfigurationError` if the log cannot be written.
    """
    try:
        log.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        path, descriptor = _open_unused(log)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {log}: {error.strerror or error}", "make it writable"
        ) from error
    try:
        yield path, descriptor
    finally:
        os.close(descriptor)


def _open_unused(log: Path) -> tuple[Path, int]:
    """Open and lock the first log that no session has locked; return its path and descriptor.

    The lock belongs to the descriptor, so the JVM and its workers, which inherit the descriptor, hold the lock, too.
    """
    for number in count(1):
        path = log if number == 1 else log.with_name(f"{log.stem}.{number}{log.suffix}")
        descriptor = _open(path)
        if not try_lock(descriptor):
            os.close(descriptor)
            continue
        if os.fstat(descriptor).st_size == 0:
            return path, descriptor
        _rotate(path)
        new_descriptor = _open(path)
        os.close(descriptor)
        if try_lock(new_descriptor):
            return path, new_descriptor
        os.close(new_descriptor)
    raise AssertionError("never reached")


def _open(path: Path) -> int:
    """Open a log for appending, readable only by its owner; return the descriptor."""
    descriptor = opener(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with suppress(PermissionError):  # another user owns the log
        path.chmod(PRIVATE_FILE)  # the log may date from before this rule
    return descriptor


def _rotate(path: Path) -> None:
    """Rename the log of the previous session to `run.log.1`, and so on. The oldest log is replaced."""
    logs = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, KEPT_LOGS + 1))]
    for newer, older in reversed([*pairwise(logs)]):
        if newer.exists():
            newer.replace(older)
