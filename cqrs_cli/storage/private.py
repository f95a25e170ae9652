"""Creates folders and files that only the current user can read, because they contain data of the application.

A umask can only restrict the permissions further. Existing folders keep their permissions.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents."""
    for missing_folder in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing_folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """Open a private file: `open(path, "wb", opener=opener)`. An existing file keeps its permissions."""
    return os.open(path, flags, PRIVATE_FILE)


@contextmanager
def atomic_write(path: Path, draft: str = "", rights: int = PRIVATE_FILE) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces `path` after the `with` block, atomically, also in case of a power failure.

    `draft`: the file's name during the block, by default a random name. With a fixed name, only one program can write
    at a time; other programs get a `FileExistsError`. If the block raises an error, the new file is removed.
    """
    draft_path = path.with_name(draft or f".{path.name}.{uuid4().hex}")
    descriptor = os.open(draft_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, rights)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        draft_path.replace(path)
    except BaseException:
        with suppress(OSError):
            draft_path.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that renames and new names in it survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
