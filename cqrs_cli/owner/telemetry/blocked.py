"""A file beside the shard that says what keeps its owner from deciding, for `status` on this machine."""

import os
from contextlib import suppress
from pathlib import Path

_SUFFIX = ".blocked"


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
