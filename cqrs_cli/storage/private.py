"""Folders and files that nobody but their owner may look into: they hold what was sent.

A umask may make them less open, never more. Folders that are there already keep their rights.
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
    """Make a folder, and those above it that are missing."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """Open a file so: `open(path, "wb", opener=opener)`. One that is there already keeps its rights."""
    return os.open(path, flags, PRIVATE_FILE)


@contextmanager
def replaced(path: Path, draft: str = "", rights: int = PRIVATE_FILE) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when the block ends: after a power failure it is there whole, or not.

    `draft`: its name in the same folder until then, if only one program may write at a time: `FileExistsError` for the
    others. Nothing is left of a block that raises.
    """
    partial = path.with_name(draft or f".{path.name}.{uuid4().hex}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, rights)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
