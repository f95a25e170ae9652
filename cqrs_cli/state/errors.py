"""The folder of a shard: its requirements, and the system's errors about it as errors of ours."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from cqrs_cli.errors import ConfigurationError, UnavailableError

_NETWORK = ("nfs", "cifs", "smb", "9p", "fuse.", "ceph", "glusterfs", "lustre", "afs")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CORRUPT = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
    lmdb.BadTxnError,  # follows one of them that was not reported
)
_ELSEWHERE = "choose another folder with --state-dir or CQRS_STATE_DIR"
_MAKE_ROOM = f"make room, or {_ELSEWHERE}"
REBUILD = "remove it: what it holds is rebuilt from the log"


class CorruptError(ConfigurationError):
    """The folder does not hold a whole LMDB file. Trying again helps once the file is out of the way."""


class AheadError(CorruptError):
    """The file is whole and holds what is not in the log, which has lost it since."""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the system's errors about the folder into `ConfigurationError`, errors of a full reader table into
    `UnavailableError`; MapFull and MapResized pass through.
    """
    try:
        yield
    except (lmdb.MapFullError, lmdb.MapResizedError):
        raise
    except _CORRUPT as error:
        raise CorruptError(f"the state in {path} is damaged ({error})", REBUILD) from error
    except OSError as error:
        raise _complaint(path, error.errno or 0, error.strerror or str(error)) from error
    except lmdb.LockError as error:  # LMDB locks a byte for its own process id: it is locked
        raise ConfigurationError(
            f"the state in {path} is open in another process with this one's id, {os.getpid()}, so in another "
            f"container ({error})",
            f"run both in one PID namespace, or {_ELSEWHERE}",
        ) from error
    except lmdb.ReadersFullError as error:
        raise UnavailableError(
            f"too many processes look at the state in {path} ({error})", "end some, then try again"
        ) from error
    except lmdb.Error as error:
        raise _complaint(path, error.code, str(error)) from error


def _complaint(path: Path, code: int, text: str) -> ConfigurationError:
    if code in _FULL:
        return ConfigurationError(f"no space left for the state in {path} ({text})", _MAKE_ROOM)
    if code == errno.EIO:  # what LMDB says of a write that was cut short, which is how a disk becomes full
        return ConfigurationError(
            f"the disk is full or failing under the state in {path} ({text})", _MAKE_ROOM
        )
    if "already open in this process" in text:
        return ConfigurationError(f"the state in {path} is open in this process already", "open it once")
    return ConfigurationError(f"the state folder {path} cannot be used ({text})", _ELSEWHERE)


#: The table of mounts, on Linux.
MOUNTS = Path("/proc/self/mounts")


def refuse_network(path: Path, mounts: Path = MOUNTS) -> None:
    """Raises `ConfigurationError` if `path` would lie on a network file system: LMDB cannot trust its maps.

    Without a table of mounts (outside Linux) it refuses nothing.
    """
    kind = _file_system(path, mounts)
    if kind.startswith(_NETWORK):
        raise ConfigurationError(
            f"the state folder {path} lies on a network file system ({kind})", _ELSEWHERE
        )


def _file_system(path: Path, mounts: Path) -> str:
    """The type of the file system that `path` is, or will be, on; empty when unknown."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place, depth, kind = path.resolve(), -1, ""
    for line in lines:
        _, escaped, mounted, *_ = line.split(" ")
        point = Path(escaped.replace("\\040", " ").replace("\\134", "\\"))
        # of two mounts on one point the later hides the earlier
        if place.is_relative_to(point) and len(point.parts) >= depth:
            depth, kind = len(point.parts), mounted
    return kind
