"""Translates errors of the system and of LMDB about a shard's folder, and checks its file system."""

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
    lmdb.BadTxnError,  # follows one of the errors above, if that was not reported
)
_ELSEWHERE = "choose another folder with state_dir in cqrs.toml or CQRS_STATE_DIR"
_FREE_SPACE = f"make room, or {_ELSEWHERE}"
REBUILD = "remove it: the state is rebuilt from the log"


class CorruptError(ConfigurationError):
    """The folder does not contain an intact LMDB file. A retry helps after the file was removed."""


class AheadError(CorruptError):
    """The file is intact, but contains decisions that are not in the log: the log has lost them, or was restored from a
    backup.
    """


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors about the folder to `ConfigurationError` or `CorruptError`, and a full reader table to
    `UnavailableError`. MapFullError and MapResizedError pass through.
    """
    try:
        yield
    except (lmdb.MapFullError, lmdb.MapResizedError):
        raise
    except _CORRUPT as error:
        raise CorruptError(f"the state in {path} is damaged ({error})", REBUILD) from error
    except OSError as error:
        raise _folder_error(path, error.errno or 0, error.strerror or str(error)) from error
    except lmdb.LockError as error:  # LMDB locks a byte for its own process id
        raise ConfigurationError(
            f"the state in {path} is open in another process with the same id, {os.getpid()}, in another "
            f"container ({error})",
            f"run both in one PID namespace, or {_ELSEWHERE}",
        ) from error
    except lmdb.ReadersFullError as error:
        raise UnavailableError(
            f"too many processes read the state in {path} ({error})",
            "end some of these processes, then try again",
        ) from error
    except lmdb.Error as error:
        raise _folder_error(path, error.code, str(error)) from error


def _folder_error(path: Path, code: int, text: str) -> ConfigurationError:
    if code in _FULL:
        return ConfigurationError(f"no space left for the state in {path} ({text})", _FREE_SPACE)
    if code == errno.EIO:  # LMDB reports EIO for an incomplete write, which is how a disk becomes full
        return ConfigurationError(
            f"the disk is full or failing under the state in {path} ({text})", _FREE_SPACE
        )
    if "already open in this process" in text:
        return ConfigurationError(f"the state in {path} is already open in this process", "open it only once")
    return ConfigurationError(f"the state folder {path} cannot be used ({text})", _ELSEWHERE)


#: The table of mounts, on Linux.
MOUNTS = Path("/proc/self/mounts")


def reject_network_file_system(path: Path, mounts: Path = MOUNTS) -> None:
    """Raise `ConfigurationError` if `path` is on a network file system, whose memory maps are unsafe for LMDB.

    Without a table of mounts (outside Linux), every path is accepted.
    """
    kind = _file_system(path, mounts)
    if kind.startswith(_NETWORK):
        raise ConfigurationError(f"the state folder {path} is on a network file system ({kind})", _ELSEWHERE)


def _file_system(path: Path, mounts: Path) -> str:
    """Return the type of the file system of `path`, which need not exist; empty if it is unknown."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    resolved, depth, kind = path.resolve(), -1, ""
    for line in lines:
        _, escaped, mounted, *_ = line.split(" ")
        mount_point = Path(escaped.replace("\\040", " ").replace("\\134", "\\"))
        # of two mounts at the same point, the later mount hides the earlier mount
        if resolved.is_relative_to(mount_point) and len(mount_point.parts) >= depth:
            depth, kind = len(mount_point.parts), mounted
    return kind
