"""A file that says what keeps an owner from deciding, or a process from reacting, for `status` on this machine.

It lies next to the shard. An owner without a shard has the same folder.
"""

import os
from contextlib import suppress
from pathlib import Path

_SUFFIX = ".blocked"


class BlockedFile:
    """The file of one owner, which is written when what it waits for changes."""

    def __init__(self, shard: Path) -> None:
        self._shard = shard
        self._told: str | None = None  # there may be a file of an owner that died

    def tell(self, why: str) -> None:
        """Say what the owner waits for; empty: nothing."""
        if why != self._told:
            self._told = why
            tell_blocked(self._shard, why)


def tell_blocked(shard: Path, why: str) -> None:
    """Say what a shard's owner waits for; empty: nothing. Nothing happens where the file cannot be written."""
    file = shard.with_name(shard.name + _SUFFIX)
    with suppress(OSError):
        if not why:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # there is none with states in memory
            file.write_text(f"{os.getpid()} {why}")


def blocked_by(shard: Path) -> str:
    """The thing that a shard's owner waits for; empty if it does not, or its process is gone."""
    try:
        process, _, why = shard.with_name(shard.name + _SUFFIX).read_text().partition(" ")
        os.kill(int(process), 0)
        return why
    except (OSError, ValueError):
        return ""
