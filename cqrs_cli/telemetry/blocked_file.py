"""A file with the reason why an owner does not decide, or a process does not react, for `cqrs status` on this machine.

The file is next to the folder of the shard, whether or not there is a shard.
"""

import os
from contextlib import suppress
from pathlib import Path

_SUFFIX = ".blocked"


class BlockedFile:
    """The file of one owner, which is written when the reason changes."""

    def __init__(self, shard: Path) -> None:
        self._shard = shard
        self._last_reason: str | None = None  # None at first: an earlier owner may have left a file

    def write_reason(self, reason: str) -> None:
        """Write the reason why the owner waits; an empty text removes the file."""
        if reason != self._last_reason:
            self._last_reason = reason
            write_reason(self._shard, reason)


def write_reason(shard: Path, reason: str) -> None:
    """Write the reason why a shard's owner waits; an empty text removes the file. File system errors are ignored."""
    file = shard.with_name(shard.name + _SUFFIX)
    with suppress(OSError):
        if not reason:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # missing with the in-memory store
            file.write_text(f"{os.getpid()} {reason}")


def read_reason(shard: Path) -> str:
    """Return the reason why a shard's owner waits; empty if it does not wait, or if its process is gone."""
    try:
        pid, _, reason = shard.with_name(shard.name + _SUFFIX).read_text().partition(" ")
        os.kill(int(pid), 0)
        return reason
    except (OSError, ValueError):
        return ""
