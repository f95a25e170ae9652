"""Payload stores in a folder or a bucket, whose payloads a test can delete, alter or block."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from cqrs_cli.core.messages.payload_reference import PayloadReference, reference_to
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.transfer import PayloadTransfer
from tests.support.objects.running import Bucket

FOLDER = "dev.order"

#: Runs a test with a folder and with an object store.
EACH_STORE = pytest.mark.parametrize("kind", ["folder", pytest.param("objects", marks=pytest.mark.objects)])


class FolderStore:
    """A payload store whose files a test can delete, alter and block. Its timeouts are short."""

    def __init__(self, path: Path, bucket: Bucket | None = None) -> None:
        """`path` is relative to the bucket, if there is one."""
        self.path = path if bucket is None else bucket.folder / path
        self._root = path if bucket is None else bucket.folder
        uri = path.as_uri() if bucket is None else bucket.uri(quote(str(path)))
        self.address = PayloadStoreAddress(uri, 1024, retry_for=0.05, timeout=1.0 if bucket is None else 3.0)
        self.transfer = PayloadTransfer(self.address)

    def put(self, data: bytes, folder: str = FOLDER) -> PayloadReference:
        reference = reference_to(data)
        self.transfer.upload(folder, {reference: data})
        return reference

    def file(self, reference: PayloadReference, folder: str = FOLDER) -> Path:
        return self.path / folder / reference.sha256

    def files(self) -> list[str]:
        return sorted(path.name for path in self.path.rglob("*") if path.is_file())

    def delete(self, reference: PayloadReference, folder: str = FOLDER) -> None:
        self.file(reference, folder).unlink()

    def alter(self, reference: PayloadReference, folder: str = FOLDER) -> None:
        """Change one byte of a payload."""
        file = self.file(reference, folder)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    def block_reads(self, reference: PayloadReference, folder: str = FOLDER) -> None:
        """Let reads of a payload never return: it becomes a pipe without a writer."""
        self.file(reference, folder).unlink(missing_ok=True)
        self.file(reference, folder).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(self.file(reference, folder))

    def reject_requests(self) -> None:
        """Refuse all requests: a file replaces the folder or the bucket."""
        if self._root.is_dir():
            self._root.rename(f"{self._root}-away")
        self._root.parent.mkdir(exist_ok=True)
        self._root.touch()

    def accept_requests(self) -> None:
        """Accept requests again."""
        self._root.unlink()
        if Path(f"{self._root}-away").is_dir():
            Path(f"{self._root}-away").rename(self._root)

    def make_older(self, reference: PayloadReference, seconds: float, folder: str = FOLDER) -> None:
        """Make a payload look older by its time of writing."""
        self.make_file_older(self.file(reference, folder), seconds)

    @staticmethod
    def make_file_older(file: Path, seconds: float) -> None:
        modified = file.stat().st_mtime - seconds
        os.utime(file, (modified, modified))


def new_store(kind: str, request: pytest.FixtureRequest, folder: Path) -> FolderStore:
    """Return an empty store of a kind of `EACH_STORE`."""
    if kind == "folder":
        return FolderStore(folder / "pay loads")
    return FolderStore(Path("pay loads"), request.getfixturevalue("bucket"))
