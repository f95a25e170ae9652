"""Temporary folders next to a shard, for a copy of the shard or for data that will replace it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from cqrs_cli.storage.private import PRIVATE_FOLDER
from cqrs_cli.system.lock import try_lock


@contextmanager
def temporary_folder(shard: Path, kind: Literal["copy", "fetch", "rebuild"]) -> Iterator[Path]:
    """Yield an empty folder next to the shard, and remove it after the block. `kind`: a part of the folder's name.

    Folders that killed processes have left are removed first.
    """
    for leftover in shard.parent.glob(f"{shard.name}.{kind}-*"):
        _remove_if_abandoned(leftover)
    locked_folder = shard.with_name(f"{shard.name}.{kind}-{os.getpid()}")
    locked_folder.mkdir(mode=PRIVATE_FOLDER, parents=True)
    descriptor = os.open(locked_folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try_lock(descriptor)
        content_folder = locked_folder / "shard"  # a folder without a lock, because it may become the shard
        content_folder.mkdir(mode=PRIVATE_FOLDER)
        yield content_folder
    finally:
        os.close(descriptor)
        shutil.rmtree(locked_folder, ignore_errors=True)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a folder whose process has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return  # another process has just removed it
    try:
        if try_lock(descriptor):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
