"""An object store of the S3 protocol: large objects, many objects, and the errors of an unusable store."""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.errors import UnavailableError
from cqrs_cli.storage.folder import StorageFolder, open_folder
from tests.support import ROOT
from tests.support.objects.running import READER, Bucket, ObjectServer

pytestmark = pytest.mark.objects


@pytest.fixture
def folder(bucket: Bucket) -> StorageFolder:
    return open_folder(bucket.uri("in"), Path("/"))


def errors_of(folder: StorageFolder) -> set[str]:
    """Return the errors of a listing, a write, and the check whether the folder can be written."""
    errors = set()
    for call in (folder.files, lambda: folder.write("a", iter([b"x"])), folder.check_writable):
        with pytest.raises(UnavailableError, match=r"s3://bucket-\w+/in cannot be used: ") as raised:
            call()
        errors.add(str(raised.value).partition("cannot be used: ")[2])
    return errors


def test_object_of_many_parts_is_whole(folder: StorageFolder) -> None:
    """Arrow uploads parts of 10 MiB. The server refuses parts below 5 MiB, except for the last part."""
    chunks = [os.urandom(1 << 20) for _ in range(24)]
    folder.write("large", iter(chunks))
    assert b"".join(folder.chunks("large")) == b"".join(chunks)


def test_torn_upload_leaves_no_object(folder: StorageFolder, bucket: Bucket) -> None:
    """An interrupted upload leaves no object, even if some parts were uploaded."""

    def broken_upload() -> Iterator[bytes]:
        for _ in range(12):
            yield bytes(1 << 20)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        folder.write("large", broken_upload())
    assert not (bucket.folder / "in" / "large").exists()


def test_listing_has_all_pages(folder: StorageFolder, bucket: Bucket) -> None:
    """A response has at most a thousand objects. Folders are not listed."""
    (bucket.folder / "in" / "deeper").mkdir(parents=True)
    (bucket.folder / "in" / "deeper" / "x").touch()
    for number in range(1001):
        (bucket.folder / "in" / f"{number:04}").touch()
    assert [file.name for file in folder.files()] == [f"{number:04}" for number in range(1001)]


def test_folder_is_empty_without_its_last_object(folder: StorageFolder) -> None:
    assert folder.check_writable()
    assert folder.files() == []


def test_missing_bucket_is_named(folder: StorageFolder, bucket: Bucket) -> None:
    """A missing bucket does not count as empty."""
    bucket.folder.rmdir()
    assert errors_of(folder) == {"the bucket does not exist; create it, or correct the address"}


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials_are_named(
    folder: StorageFolder, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "another")
    for error in errors_of(folder):
        assert error.endswith("; check the credentials in the environment, and their rights")


def test_readers_may_read_and_list(folder: StorageFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers have the rights that the documentation lists for them."""
    folder.write("a", iter([b"x"]))
    for name, value in READER.items():
        monkeypatch.setenv(name, value)
    assert ([file.name for file in folder.files()], folder.read("a")) == (["a"], b"x")
    with pytest.raises(UnavailableError, match="access is denied; check the credentials"):
        folder.write("b", iter([b"x"]))
    with pytest.raises(UnavailableError, match="access is denied; check the credentials"):
        folder.remove("a")


@pytest.mark.program
def test_dead_server_is_named(folder: StorageFolder, object_store: ObjectServer) -> None:
    object_store.kill()
    try:
        assert errors_of(folder) == {
            "it cannot be reached; check that the store is running, and that its address is correct"
        }
    finally:
        object_store.start()
    assert folder.files() == []


def test_silent_server_is_unavailable(bucket: Bucket) -> None:
    """The server accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = bucket._replace(port=server.getsockname()[1]).uri("in")
        with pytest.raises(UnavailableError, match="it does not answer; check that the store is running"):
            open_folder(uri, Path("/"), timeout=1.0).read("a")


def test_documented_addresses_are_valid() -> None:
    """`open_folder` raises an error for an address with an unknown option."""
    for page in ("payloads.md", "operations.md"):
        uris = re.findall(r'"(s3://[^"]+)"', (ROOT / "docs" / page).read_text(encoding="utf-8"))
        assert uris
        for uri in uris:
            assert uri.startswith(open_folder(uri, Path("/")).uri)


@pytest.mark.program
def test_server_ends_with_its_parent(tmp_path: Path) -> None:
    """The server ends when its stdin is closed, however its parent process ended."""
    server = ObjectServer(tmp_path)
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(30) == 0
    server.kill()
