"""The shutdown marker in a shard's folder, which decides whether the data can be trusted before LMDB opens the file.

LMDB aborts the process if the file is torn, and writes to an open shard are not synced. So the marker is a separate
small file, which is written with fsync and rename.

    working   the shard is open, since the recorded boot, on this device and inode. A killed process loses nothing,
              because the page cache survives it. A crash of the machine may tear the file, and so may copying it.
    damaged   the owner has found damage: the shard is never trusted again.
    clean     the shard was closed and synced, with this inode, length and modification time, and not written since.
              Boot and device may differ, so a volume may be moved to another machine.

A copy is never trusted, not even the copy of a clean shard: the copy may have begun while the shard was closed, and
ended after it was opened again. The cost is one rebuild from the log.
"""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from cqrs_cli.state.environment import DATA_FILE

MARKER_FILE = "mark.json"


ShutdownState = Literal["working", "damaged", "clean"]


class ShutdownMarker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the marker: facts about the data file at the time of its opening or clean closing."""

    state: ShutdownState
    boot: str  # `boot_id()`
    device: int
    inode: int
    length: int  # bytes
    changed: int  # modification time, ns since the epoch


def write_marker(folder: int, state: ShutdownState) -> None:
    """Write the marker of the shard in `folder`, a descriptor, which stays valid after a rename (quarantine).

    `storage.private.atomic_write` is not used, because it takes a path.
    """
    data = os.stat(DATA_FILE, dir_fd=folder)
    marker = ShutdownMarker(state, boot_id(), data.st_dev, data.st_ino, data.st_size, data.st_mtime_ns)
    draft = f"{MARKER_FILE}.{os.getpid()}"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=folder)
    try:
        os.write(file, msgspec.json.encode(marker))
        os.fsync(file)
    finally:
        os.close(file)
    os.replace(draft, MARKER_FILE, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def distrust_reason(path: Path, boot: str | None = None) -> str | None:
    """Return why the shard in the folder `path` cannot be trusted; None if it can. `boot` replaces `boot_id()`."""
    try:
        marker = msgspec.json.decode((path / MARKER_FILE).read_bytes(), type=ShutdownMarker)
        data = (path / DATA_FILE).stat()
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except msgspec.DecodeError:
        return f"{MARKER_FILE} cannot be read"
    if marker.state == "damaged":
        return "its owner found damage"
    if marker.state == "clean":
        if (marker.inode, marker.length, marker.changed) != (data.st_ino, data.st_size, data.st_mtime_ns):
            return "it is not the file that was closed cleanly"
        return None
    if (marker.device, marker.inode) != (data.st_dev, data.st_ino):
        return "it is a copy of a shard that was in use"
    if not marker.boot or marker.boot != (boot_id() if boot is None else boot):
        return "the machine was restarted while the shard was in use"
    return None


@cache
def boot_id() -> str:
    """Return the id of this boot of the machine; empty if it is unknown: then no shard marked `working` is trusted."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        pass
    try:
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]  # macOS
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
