"""A file with the reason why an owner does not decide, or a process does not react, for `cqrs status` on this machine.

The file is next to the shard. An owner without a shard has the same folder.
"""

import os
from contextlib import suppress
from pathlib import Path

_SUFFIX = ".blocked"


class BlockedFile:
    """The file of one owner, which is written when the reason changes."""

    def __init__(self, shard: Path) -> None:
        self._shard = shard
        self._told: str | None = None  # an owner that died may have left a file

    def tell(self, why: str) -> None:
        """Write the reason why the owner waits; an empty text removes the file."""
        if why != self._told:
            self._told = why
            tell_blocked(self._shard, why)


def tell_blocked(shard: Path, why: str) -> None:
    """Write the reason why a shard's owner waits; an empty text removes the file. File system errors are ignored."""
    file = shard.with_name(shard.name + _SUFFIX)
    with suppress(OSError):
        if not why:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # missing with the in-memory store
            file.write_text(f"{os.getpid()} {why}")


def blocked_by(shard: Path) -> str:
    """Return the reason why a shard's owner waits; empty if it does not wait, or if its process is gone."""
    try:
        process, _, why = shard.with_name(shard.name + _SUFFIX).read_text().partition(" ")
        os.kill(int(process), 0)
        return why
    except (OSError, ValueError):
        return ""
