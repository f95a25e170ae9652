"""Closes a worker's connections in children that the user's code forks.

A child inherits the connection to Spark's JVM. If the worker died, its child would keep the connection open, and the
JVM would wait for the worker's result for as long as the child lives.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

#: Descriptor of a connection → its inode: the number of a closed descriptor may be used again for another file.
_sockets: dict[int, int] = {}
_is_registered = False  # True: `os.register_at_fork` was called


def close_sockets_in_children() -> None:
    """Close, in each child that this process forks from now on, the sockets that are open now."""
    global _is_registered
    _sockets.update(_open_sockets())
    if not _is_registered:
        _is_registered = True
        os.register_at_fork(after_in_child=lambda: _replace_by_null(_sockets))


def _open_sockets() -> dict[int, int]:
    """Return the inode of each open socket, by descriptor."""
    inodes: dict[int, int] = {}
    for path in Path("/dev/fd").iterdir():
        try:
            status = os.fstat(int(path.name))
        except OSError:  # the descriptor of the listing itself
            continue
        if stat.S_ISSOCK(status.st_mode):
            inodes[int(path.name)] = status.st_ino
    return inodes


def _replace_by_null(sockets: Mapping[int, int]) -> None:
    """Let the sockets' descriptors refer to /dev/null. They are not closed, because their numbers could then be used
    for other files, which objects inherited from the worker might close.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number, inode in sockets.items():
        try:
            if os.fstat(number).st_ino == inode:
                os.dup2(null, number, inheritable=False)
        except OSError:  # the worker has closed it
            continue
    os.close(null)
