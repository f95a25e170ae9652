"""A file beside the shard that names the command on which its owner spends seconds, for `status` on this machine."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_SUFFIX = ".deciding"


class SlowCommand(NamedTuple):
    """A command that has been under decision since a time (seconds since the epoch)."""

    offset: int
    since: float

    def __str__(self) -> str:
        return f"command {self.offset} is being decided for {max(0.0, time.time() - self.since):,.0f} s"


def tell_slow(shard: Path, offset: int | None, seconds: float = 0.0) -> None:
    """Name the command that a shard's owner has been deciding for some seconds; None: there is none.

    Nothing happens where the file cannot be written.
    """
    file = shard.with_name(shard.name + _SUFFIX)
    with suppress(OSError):
        if offset is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # there is none with states in memory
            file.write_text(f"{offset} {time.time() - seconds} {os.getpid()}")


def slow_command(shard: Path) -> SlowCommand | None:
    """The slow command of a shard's owner; None if there is none, or its process is gone."""
    try:
        offset, since, process = shard.with_name(shard.name + _SUFFIX).read_text().split()
        os.kill(int(process), 0)
        return SlowCommand(int(offset), float(since))
    except (OSError, ValueError):
        return None
