"""Stores for tests: a folder, and what may be done to the payloads in it."""

import os
from pathlib import Path

from cqrs_cli.core.messages.payload_reference import PayloadReference, refer
from cqrs_cli.payloads.place import PayloadPlace
from cqrs_cli.payloads.transfer import PayloadTransfer

FOLDER = "dev.order"


class FolderStore:
    """A folder as a store that can lose, alter and withhold payloads. It has little patience."""

    def __init__(self, path: Path, threshold: int = 1024) -> None:
        self.path = path
        self.place = PayloadPlace(path.as_uri(), threshold, retry_for=0.05, timeout=1.0)
        self.transfer = PayloadTransfer(self.place)

    def put(self, data: bytes, folder: str = FOLDER) -> PayloadReference:
        reference = refer(data)
        self.transfer.upload(folder, {reference: data})
        return reference

    def file(self, reference: PayloadReference, folder: str = FOLDER) -> Path:
        return self.path / folder / reference.sha256

    def files(self) -> list[str]:
        return sorted(path.name for path in self.path.rglob("*") if path.is_file())

    def lose(self, reference: PayloadReference, folder: str = FOLDER) -> None:
        self.file(reference, folder).unlink()

    def alter(self, reference: PayloadReference, folder: str = FOLDER) -> None:
        """Change one byte."""
        file = self.file(reference, folder)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    def withhold(self, reference: PayloadReference, folder: str = FOLDER) -> None:
        """Let reading never return: nobody writes to the pipe."""
        self.file(reference, folder).unlink(missing_ok=True)
        self.file(reference, folder).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(self.file(reference, folder))

    def age(self, reference: PayloadReference, seconds: float, folder: str = FOLDER) -> None:
        """Make a payload look as if it had been written that long ago."""
        self.age_file(self.file(reference, folder), seconds)

    @staticmethod
    def age_file(file: Path, seconds: float) -> None:
        then = file.stat().st_mtime - seconds
        os.utime(file, (then, then))
