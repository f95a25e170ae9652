"""Storage folders with unusual behaviour."""

from collections.abc import Iterator
from pathlib import Path

from cqrs_cli.errors import CqrsError
from cqrs_cli.storage.folder import StorageFolder


class LocalFolder(StorageFolder):
    def __init__(self, path: Path) -> None:
        from pyarrow.fs import LocalFileSystem

        super().__init__(str(path), LocalFileSystem(), str(path))


class InChunks(LocalFolder):
    """A folder whose files are read in these chunks."""

    def __init__(self, path: Path, chunks: list[bytes]) -> None:
        super().__init__(path)
        self._chunks = chunks

    def chunks(self, name: str) -> Iterator[bytes]:
        return iter(self._chunks)


class FullFolder(LocalFolder):
    """A folder on a full disk."""

    def write(self, name: str, content: Iterator[bytes]) -> None:
        raise CqrsError("the disk is full")
