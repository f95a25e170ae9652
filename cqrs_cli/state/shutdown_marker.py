"""The shutdown marker in a shard's folder: it says if the data may be trusted before LMDB touches it.

LMDB aborts the process on a torn file, and nothing is synced while a shard is at work. So the marker is a small file
of its own, written with fsync and rename.

    working   since this boot of the machine, on this device and inode. A killed process loses nothing, the page
              cache outlives it; a crashed machine may tear the file, and so may copying it.
    damaged   found so by its owner: never to be trusted again.
    clean     closed and synced, with this inode, length and time of change: not written to since. Boot and
              device may differ, so a volume may be moved to another machine.

A copy is never trusted, not even of a clean shard: it may have been begun while the shard was closed, and ended
while it was at work. It costs one rebuild from the log.
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
    """Facts about the data file when its owner began, or ended cleanly."""

    state: ShutdownState
    boot: str
    device: int
    inode: int
    length: int
    changed: int  # ns since the epoch


def write_marker(folder: int, state: ShutdownState) -> None:
    """Mark the shard in `folder`, a descriptor: it stays right if another process has set the folder aside.

    So it is no file that `storage.private.replaced` could write, which takes a path.
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


def distrust(path: Path, boot: str | None = None) -> str | None:
    """The reason why the shard in the folder `path` may not be opened; None if it may. `boot`: if not `boot_id()`."""
    try:
        marker = msgspec.json.decode((path / MARKER_FILE).read_bytes(), type=ShutdownMarker)
        data = (path / DATA_FILE).stat()
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except msgspec.DecodeError:
        return f"{MARKER_FILE} cannot be read"
    if marker.state == "damaged":
        return "its owner found it damaged"
    if marker.state == "clean":
        if (marker.inode, marker.length, marker.changed) != (data.st_ino, data.st_size, data.st_mtime_ns):
            return "it is not the file that was closed cleanly"
        return None
    if (marker.device, marker.inode) != (data.st_dev, data.st_ino):
        return "it is a copy of a shard at work"
    if not marker.boot or marker.boot != (boot_id() if boot is None else boot):
        return "the machine was restarted while it was at work"
    return None


@cache
def boot_id() -> str:
    """The id of this start of the machine; empty when unknown: then no shard at work is trusted."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        pass
    try:
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]  # macOS
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
