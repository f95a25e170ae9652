"""A file next to the shard, which names a command that takes seconds to decide; `cqrs status` reads it."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_SUFFIX = ".deciding"


class SlowCommand(NamedTuple):
    """A command whose `decide` has been running for some time."""

    offset: int
    since: float  # seconds since the epoch

    def __str__(self) -> str:
        return f"command {self.offset} is being decided for {max(0.0, time.time() - self.since):,.0f} s"


def write_slow_command(shard: Path, offset: int | None, seconds: float = 0.0) -> None:
    """Write the command that a shard's owner has been deciding for so many seconds; None removes the file.

    A file that cannot be written is ignored.
    """
    file = shard.with_name(shard.name + _SUFFIX)
    with suppress(OSError):
        if offset is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # missing with the in-memory store
            file.write_text(f"{offset} {time.time() - seconds} {os.getpid()}")


def read_slow_command(shard: Path) -> SlowCommand | None:
    """Return the slow command of a shard's owner; None if there is none, or if its process is gone."""
    try:
        offset, since, process = shard.with_name(shard.name + _SUFFIX).read_text().split()
        os.kill(int(process), 0)
        return SlowCommand(int(offset), float(since))
    except (OSError, ValueError):
        return None
