"""`StorageFolder`: a folder on a local disk or in an object store, at a path or any URI of `pyarrow.fs`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit
from uuid import uuid4

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.storage.buckets import STORE_TIMEOUT, list_files, open_bucket
from cqrs_cli.storage.private import atomic_write, make_folder
from cqrs_cli.storage.reasons import explain_store_error, is_checksum_mismatch

#: The bytes of one read. In an object store, each read is a request.
_CHUNK_BYTES = 8 << 20


class FileUnavailableError(UnavailableError):
    """A single file is missing or altered, but the store works."""


class StoredFile(NamedTuple):
    """A file in a folder, with its size in bytes."""

    name: str
    size: int


class StorageFolder:
    """The files of one folder, by name. It holds connections, so it cannot be pickled: open it where it is used.

    The methods raise `UnavailableError` if the store does not answer, or denies access.
    """

    def __init__(self, uri: str, filesystem: Any, path: str) -> None:
        self.uri = uri
        self._filesystem, self._path = filesystem, path.rstrip("/")
        self._is_local = filesystem.type_name == "local"

    def filesystem_and_path(self) -> tuple[Any, str]:
        """Return the Arrow file system and the folder's path, for callers that need other operations."""
        return self._filesystem, self._path

    def subfolder(self, *names: str) -> "StorageFolder":
        """Return a folder inside this folder, which need not exist."""
        return StorageFolder(
            "/".join([self.uri.rstrip("/"), *names]), self._filesystem, "/".join([self._path, *names])
        )

    def files(self) -> list[StoredFile]:
        """Return the files, sorted by name; an empty list if the folder does not exist."""
        with self._translate_errors():
            infos = list_files(self._filesystem, self._path)
        return sorted(StoredFile(info.base_name, info.size) for info in infos)

    def read(self, name: str) -> bytes:
        """Return the bytes of a small file."""
        with self._translate_errors(), self._filesystem.open_input_stream(self._file_path(name)) as file:
            return bytes(file.read())

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file in chunks."""
        with self._translate_errors(), self._filesystem.open_input_stream(self._file_path(name)) as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def write(self, name: str, content: Iterator[bytes]) -> None:
        """Write a file atomically: a file with this name is always complete."""
        with self._translate_errors():
            if self._is_local:
                make_folder(Path(self._path))
                with atomic_write(Path(self._file_path(name))) as file:
                    file.writelines(content)
                return
            stream = self._filesystem.open_output_stream(self._file_path(name))
            try:
                for chunk in content:
                    stream.write(chunk)
            except BaseException:
                with suppress(OSError):  # closing a stream creates the object, and a stream cannot be aborted
                    stream.close()
                    self._filesystem.delete_file(self._file_path(name))
                raise
            stream.close()

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is no error."""
        try:
            with self._translate_errors():
                self._filesystem.delete_file(self._file_path(name))
        except UnavailableError:
            if any(file.name == name for file in self.files()):
                raise

    def check_writable(self) -> bool:
        """Write and remove a small file, and return True. Return False for a missing local folder that can be
        created.
        """
        folder = Path(self._path)
        if self._is_local and not folder.is_dir():
            parent = next(path for path in folder.parents if path.exists())
            with self._translate_errors():
                if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
                    raise PermissionError(
                        f"it does not exist, and {parent} is not a folder that can be written"
                    )
            return False
        name = f"try-{uuid4().hex}"
        self.write(name, iter([b"x"]))
        self.remove(name)
        return True

    def _file_path(self, name: str) -> str:
        return f"{self._path}/{name}"

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # pyarrow raises subclasses of `OSError` for errors of stores
            reason = explain_store_error(error)
            is_file_lost = isinstance(error, FileNotFoundError) or is_checksum_mismatch(error)
            error_class = FileUnavailableError if is_file_lost else UnavailableError
            raise error_class(f"{self.uri} cannot be used: {reason.text}", reason.hint) from error


def file_chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a local file in chunks."""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def open_folder(uri: str, root: Path, timeout: float = STORE_TIMEOUT) -> StorageFolder:
    """Return the folder at a URI, or at a path relative to `root`; it need not exist. No request is sent yet.

    `timeout`: seconds to wait for a store that sends no data. Raises `ConfigurationError` for a malformed URI, and for
    a URI with a password.
    """
    from pyarrow import ArrowException, fs

    parts = check_folder(uri)
    if not parts.scheme:
        path = root / Path(uri).expanduser()
        return StorageFolder(str(path), fs.LocalFileSystem(), str(path))
    try:
        if parts.scheme == "s3":
            return StorageFolder(uri.partition("?")[0], *open_bucket(parts, timeout))
        return StorageFolder(uri.partition("?")[0], *fs.FileSystem.from_uri(uri))
    except (OSError, ArrowException, ValueError, TypeError, NotImplementedError) as error:
        raise ConfigurationError(f"{uri.partition('?')[0]} is not a folder: {error}", _URI_HINT) from None


_URI_HINT = "write a path, or a URI such as s3://bucket/folder?region=eu-central-1"


def check_folder(uri: str) -> SplitResult:
    """Return the parts of a folder's URI; raises `ConfigurationError` if it is malformed or contains a password."""
    try:
        parts = urlsplit(uri)
        secret = parts.password
    except ValueError as error:
        raise ConfigurationError(f"a folder's URI cannot be read: {error}", _URI_HINT) from None
    if secret is not None or "secret" in parts.query.lower():
        raise ConfigurationError(
            f"the {parts.scheme} URI of a folder contains a password",
            "remove the password: cqrs takes credentials from the environment, as the store's own tools do",
        )
    if not uri or "\0" in uri or (parts.scheme == "s3" and not parts.netloc):
        raise ConfigurationError(f"{uri!r} is not a folder", _URI_HINT)
    return parts
