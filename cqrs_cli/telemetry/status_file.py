"""A file with the state of a partition's owner, for `cqrs status` on this machine: why the owner waits, and a command
that takes long.

The file is next to the folder of the shard, whether or not there is a shard.
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.observer import Listener

_SUFFIX = ".status"


class SlowCommand(NamedTuple):
    """A command whose `decide` has been running for some time."""

    offset: int
    since: float  # seconds since the epoch

    def __str__(self) -> str:
        return f"command {self.offset} is being decided for {max(0.0, time.time() - self.since):,.0f} s"


class OwnerStatus(Struct, frozen=True, omit_defaults=True):
    """The state of an owner. Sample: `{"pid":4711,"blocked":"topic x is missing"}`"""

    pid: int = 0
    blocked: str = ""  # the reason why the owner waits
    slow: SlowCommand | None = None


_NO_STATUS = OwnerStatus()


class StatusFile:
    """The listener that writes the file of one partition. File system errors are ignored.

    The reason why the owner waits is valid until this owner, or a later owner of the partition, has committed a batch.
    The file of an earlier owner of this process is removed.
    """

    def __init__(self, shard_folder: Path) -> None:
        self._file, self._status, self._lock = _file(shard_folder), _NO_STATUS, threading.Lock()
        self.listener: Listener = {
            "owner.blocked": self._block,
            "batch.after": self._unblock,
            "owner.ended": self._unblock,
            "record.slow": self._begin_slow,
            "record.continued": self._end_slow,
        }
        self._write()

    def _block(self, reason: str) -> None:
        self._update(blocked=reason)

    def _unblock(self, **_: object) -> None:
        if self._status.blocked:
            self._update(blocked="")

    def _begin_slow(self, offset: int, seconds: float) -> None:
        self._update(slow=SlowCommand(offset, time.time() - seconds))

    def _end_slow(self) -> None:
        self._update(slow=None)

    def _update(self, **changes: object) -> None:
        with self._lock:  # called by the owner's thread and by the task's watchdog
            self._status = replace(self._status, **changes)
            self._write()

    def _write(self) -> None:
        with suppress(OSError):
            if self._status == _NO_STATUS:
                self._file.unlink(missing_ok=True)
            else:
                # With the in-memory store the folder does not exist yet.
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file.write_bytes(msgspec.json.encode(replace(self._status, pid=os.getpid())))


def read_status(shard_folder: Path) -> OwnerStatus:
    """Return the state of a shard's owner; an empty state without a file, or if the owner's process has ended."""
    try:
        status = msgspec.json.decode(_file(shard_folder).read_bytes(), type=OwnerStatus)
        os.kill(status.pid, 0)
        return status
    except (OSError, ValueError):
        return _NO_STATUS


def _file(shard_folder: Path) -> Path:
    return shard_folder.with_name(shard_folder.name + _SUFFIX)
