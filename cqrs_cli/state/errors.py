"""Translates errors of the system and of LMDB about a shard's folder, and checks its file system."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from cqrs_cli.errors import ConfigurationError, UnavailableError

_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.", "ceph", "glusterfs", "lustre", "afs")
_DISK_FULL_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CORRUPTION_ERRORS = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
    lmdb.BadTxnError,  # raised after one of the errors above, if LMDB did not report that error
)
_OTHER_FOLDER_HINT = "choose another folder with state_dir in cqrs.toml or CQRS_STATE_DIR"
_FREE_SPACE_HINT = f"free disk space, or {_OTHER_FOLDER_HINT}"
REBUILD_HINT = "remove it: the state is rebuilt from the log"


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
    except _CORRUPTION_ERRORS as error:
        raise CorruptError(f"the state in {path} is damaged ({error})", REBUILD_HINT) from error
    except OSError as error:
        raise _folder_error(path, error.errno or 0, error.strerror or str(error)) from error
    except lmdb.LockError as error:  # LMDB locks one byte per process id; two containers may use the same id
        raise ConfigurationError(
            f"the state in {path} is open in another process with the same id, {os.getpid()}, in another "
            f"container ({error})",
            f"run both in one PID namespace, or {_OTHER_FOLDER_HINT}",
        ) from error
    except lmdb.ReadersFullError as error:
        raise UnavailableError(
            f"too many processes read the state in {path} ({error})",
            "end some of these processes, then try again",
        ) from error
    except lmdb.Error as error:
        raise _folder_error(path, error.code, str(error)) from error


def _folder_error(path: Path, code: int, text: str) -> ConfigurationError:
    if code in _DISK_FULL_CODES:
        return ConfigurationError(f"no space left for the state in {path} ({text})", _FREE_SPACE_HINT)
    if code == errno.EIO:  # LMDB reports EIO for an incomplete write, which is how a disk becomes full
        return ConfigurationError(
            f"the disk is full or failing under the state in {path} ({text})", _FREE_SPACE_HINT
        )
    if "already open in this process" in text:
        return ConfigurationError(f"the state in {path} is already open in this process", "open it only once")
    return ConfigurationError(f"the state folder {path} cannot be used ({text})", _OTHER_FOLDER_HINT)


#: Linux's table of mounts. A line: device, mount point, type of the file system, options.
MOUNTS = Path("/proc/self/mounts")


def reject_network_file_system(path: Path, mounts: Path = MOUNTS) -> None:
    """Raise `ConfigurationError` if `path` is on a network file system, whose memory maps are unsafe for LMDB.

    Without a table of mounts (outside Linux), every path is accepted.
    """
    file_system = _file_system(path, mounts)
    if file_system.startswith(_NETWORK_FILE_SYSTEMS):
        raise ConfigurationError(
            f"the state folder {path} is on a network file system ({file_system})", _OTHER_FOLDER_HINT
        )


def _file_system(path: Path, mounts: Path) -> str:
    """Return the type of the file system of `path`, which need not exist; empty if it is unknown."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    real_path, depth, file_system = path.resolve(), -1, ""
    for line in lines:
        _, escaped_path, mount_type, *_ = line.split(" ")
        mount_point = Path(escaped_path.replace("\\040", " ").replace("\\134", "\\"))
        # of two mounts at the same path, the later mount hides the earlier mount
        if real_path.is_relative_to(mount_point) and len(mount_point.parts) >= depth:
            depth, file_system = len(mount_point.parts), mount_type
    return file_system
