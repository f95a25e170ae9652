"""Folders and files that nobody but their owner may look into: they hold what was sent.

A umask may make them less open, never more. Folders that are there already keep their rights.
"""

import os
from pathlib import Path
from typing import Final

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """Open a file so: `open(path, "wb", opener=opener)`. One that is there already keeps its rights."""
    return os.open(path, flags, PRIVATE_FILE)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
