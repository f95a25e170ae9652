"""The payload store: files in a folder, or objects in an object store, accessed through pyarrow's file systems."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.core.messages.payload_reference import PayloadReference
from cqrs_cli.storage.buckets import list_files, require_bucket
from cqrs_cli.storage.folder import open_folder
from cqrs_cli.storage.private import atomic_write, make_folder

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: The age in seconds up to which `put` reuses an existing payload. An older payload is written again, which sets its
#: age to 0. `payloads gc` keeps young payloads, so it deletes no payload whose record is about to be written.
_MAX_REUSED_AGE = 30 * 60

#: Limit in bytes for one read.
_CHUNK = 8 * 1024 * 1024


#: The subfolder to which `payloads gc` moves unused payloads. Readers still find the payloads there.
UNUSED_SUBFOLDER = "aside"


class AlteredPayloadError(Exception):
    """The bytes in the store do not match the size and SHA-256 of the reference."""


class StoredPayload(NamedTuple):
    """A file in a folder of the store; `age` in seconds."""

    name: str
    size: int
    age: float


class PayloadStore:
    """Payloads by folder and SHA-256. Raises the file system's errors; errors that may be temporary are `OSError`s."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @cached_property
    def _filesystem_and_path(self) -> "tuple[FileSystem, str]":
        return open_folder(self.uri, Path("/")).filesystem_and_path()

    def load_client(self) -> None:
        """Load the file system's client; raises `ConfigurationError` for a URI of no known file system."""
        _ = self._filesystem_and_path

    def exists(self) -> bool:
        """True if the store's folder exists; the first upload creates it. Raises `OSError` if the bucket is missing."""
        filesystem, base = self._filesystem_and_path
        (file_info,) = filesystem.get_file_info([base])
        require_bucket(filesystem, base)
        return bool(file_info.type.name == "Directory" or filesystem.type_name == "s3")

    def put(self, folder: str, reference: PayloadReference, data: bytes) -> None:
        """Write a payload, unless it exists and is younger than `_MAX_REUSED_AGE`.

        The write is atomic; a local file is synced to disk.
        """
        filesystem, base = self._filesystem_and_path
        path = f"{base}/{folder}/{reference.sha256}"
        (file_info,) = filesystem.get_file_info([path])
        if file_info.is_file and file_info.size == reference.size and _age(file_info.mtime) < _MAX_REUSED_AGE:
            return
        if filesystem.type_name == "local":
            make_folder(Path(path).parent)
            with atomic_write(Path(path)) as file:
                file.write(data)
            return
        # In an object store, the object appears when the stream is closed.
        with filesystem.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def get(self, folder: str, reference: PayloadReference) -> bytes:
        """Return a payload after checking its size and SHA-256; raises `FileNotFoundError` or `AlteredPayloadError`.

        It reads one byte more than the size in the reference, so a longer file is detected.
        """
        try:
            data = self._read(f"{folder}/{reference.sha256}", reference.size + 1)
        except FileNotFoundError:
            require_bucket(*self._filesystem_and_path)
            data = self._read(f"{folder}/{UNUSED_SUBFOLDER}/{reference.sha256}", reference.size + 1)
        if not reference.matches(data):
            raise AlteredPayloadError(f"its {len(data)} bytes differ from the bytes that were stored")
        return data

    def _read(self, path: str, max_bytes: int) -> bytes:
        filesystem, base = self._filesystem_and_path
        parts: list[bytes] = []
        with filesystem.open_input_stream(f"{base}/{path}", compression=None) as stream:
            while max_bytes and (part := stream.read(min(max_bytes, _CHUNK))):
                parts.append(part)
                max_bytes -= len(part)
        return b"".join(parts)

    def list_payloads(self, folder: str) -> Iterator[StoredPayload]:
        """Yield the files of a folder, in no order."""
        filesystem, base = self._filesystem_and_path
        for file_info in list_files(filesystem, f"{base}/{folder}"):
            yield StoredPayload(file_info.base_name, file_info.size, _age(file_info.mtime))

    def age(self, folder: str, name: str) -> float | None:
        """Return the current age of a file in seconds; None if the file does not exist."""
        filesystem, base = self._filesystem_and_path
        (file_info,) = filesystem.get_file_info([f"{base}/{folder}/{name}"])
        return _age(file_info.mtime) if file_info.is_file else None

    def remove(self, folder: str, name: str) -> None:
        """Delete one file."""
        filesystem, base = self._filesystem_and_path
        filesystem.delete_file(f"{base}/{folder}/{name}")

    def move(self, source_folder: str, target_folder: str, name: str) -> None:
        """Move a file to another folder, and set its age to 0.

        At any time, the file is in at least one of the folders.
        """
        filesystem, base = self._filesystem_and_path
        source_path = f"{base}/{source_folder}/{name}"
        target_path = f"{base}/{target_folder}/{name}"
        if filesystem.type_name == "local":
            make_folder(Path(target_path).parent)
            os.utime(source_path)
            filesystem.move(source_path, target_path)
        else:
            filesystem.copy_file(source_path, target_path)
            filesystem.delete_file(source_path)


def _age(modified: datetime | None) -> float:
    """Return the seconds since a modification time. If the store reports no time, the age is 0."""
    return 0.0 if modified is None else time.time() - modified.astimezone(UTC).timestamp()
