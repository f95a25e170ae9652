"""The store: payloads as files of a folder, or objects of an object store, by pyarrow's file systems."""

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
from cqrs_cli.storage.private import make_folder, replaced

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: Seconds for which a payload that is there is taken as it is. An older one is written again: then `payloads gc`, which
#: spares what is young, does not remove it before the record that is about to name it is written.
_YOUNG = 30 * 60

#: The longest stretch that is read at once, in bytes.
_STRETCH = 8 * 1024 * 1024


#: The folder within an aggregate's, for payloads that `payloads gc` has found to be unused. They are still read.
ASIDE = "aside"


class AlteredError(Exception):
    """The bytes in the store are not those that the sum names."""


class StoredPayload(NamedTuple):
    """A file of a folder; `age` in seconds."""

    name: str
    size: int
    age: float


class PayloadStore:
    """Payloads by folder and sum. Raises the file system's errors: `OSError` for every error that may pass."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @cached_property
    def _opened(self) -> "tuple[FileSystem, str]":
        return open_folder(self.uri, Path("/")).opened()

    def open(self) -> None:
        """Load the file system's client; raises `ConfigurationError` for a URI that names none."""
        _ = self._opened

    def exists(self) -> bool:
        """Tell whether the store's own folder is there; the first payload makes it. A bucket has to be there."""
        filesystem, base = self._opened
        (found,) = filesystem.get_file_info([base])
        require_bucket(filesystem, base)
        return bool(found.type.name == "Directory" or filesystem.type_name == "s3")

    def put(self, folder: str, reference: PayloadReference, data: bytes) -> None:
        """Write a payload unless it is there. It appears whole under its name, and on a disk it is on the disk."""
        filesystem, base = self._opened
        path = f"{base}/{folder}/{reference.sha256}"
        (found,) = filesystem.get_file_info([path])
        if found.is_file and found.size == reference.size and _age(found.mtime) < _YOUNG:
            return
        if filesystem.type_name == "local":
            make_folder(Path(path).parent)
            with replaced(Path(path)) as file:
                file.write(data)
            return
        with filesystem.open_output_stream(
            path, compression=None
        ) as stream:  # an object appears when it is closed
            stream.write(data)

    def get(self, folder: str, reference: PayloadReference) -> bytes:
        """The payload, checked; raises `FileNotFoundError` and `AlteredError`. Reads one byte more than its size."""
        try:
            data = self._read(f"{folder}/{reference.sha256}", reference.size + 1)
        except FileNotFoundError:
            require_bucket(*self._opened)
            data = self._read(f"{folder}/{ASIDE}/{reference.sha256}", reference.size + 1)
        if not reference.accepts(data):
            raise AlteredError(f"its {len(data)} bytes are not those that were stored")
        return data

    def _read(self, path: str, most: int) -> bytes:
        filesystem, base = self._opened
        parts: list[bytes] = []
        with filesystem.open_input_stream(f"{base}/{path}", compression=None) as stream:
            while most and (part := stream.read(min(most, _STRETCH))):
                parts.append(part)
                most -= len(part)
        return b"".join(parts)

    def stored(self, folder: str) -> Iterator[StoredPayload]:
        """The files of a folder, in no order."""
        filesystem, base = self._opened
        for found in list_files(filesystem, f"{base}/{folder}"):
            yield StoredPayload(found.base_name, found.size, _age(found.mtime))

    def age(self, folder: str, name: str) -> float | None:
        """The age of one file now, in seconds; None if it is not there."""
        filesystem, base = self._opened
        (found,) = filesystem.get_file_info([f"{base}/{folder}/{name}"])
        return _age(found.mtime) if found.is_file else None

    def remove(self, folder: str, name: str) -> None:
        """Delete one file."""
        filesystem, base = self._opened
        filesystem.delete_file(f"{base}/{folder}/{name}")

    def move(self, source: str, folder: str, name: str) -> None:
        """Move a file from one folder to another, where it is new; it is in one of them at any time."""
        filesystem, base = self._opened
        before, after = f"{base}/{source}/{name}", f"{base}/{folder}/{name}"
        if filesystem.type_name == "local":
            make_folder(Path(after).parent)
            os.utime(before)
            filesystem.move(before, after)
        else:
            filesystem.copy_file(before, after)
            filesystem.delete_file(before)


def _age(modified: datetime | None) -> float:
    """Seconds since a time. A store that tells none has young files only."""
    return 0.0 if modified is None else time.time() - modified.astimezone(UTC).timestamp()
