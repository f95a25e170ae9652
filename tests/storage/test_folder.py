"""A folder by path or URI: its files are complete or missing, and its errors name the cause."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.storage.folder import StorageFolder, StoredFile, open_folder


@pytest.fixture(params=["path", "relative", "file", pytest.param("s3", marks=pytest.mark.objects)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> StorageFolder:
    """The test's folder `in`, on a disk or in a bucket."""
    if request.param == "s3":
        bucket = request.getfixturevalue("bucket")
        (tmp_path / "in").symlink_to(bucket.folder / "in")
        return open_folder(bucket.uri("in"), tmp_path)
    kinds = {"path": str(tmp_path / "in"), "relative": "in", "file": f"file://{tmp_path}/in"}
    return open_folder(kinds[request.param], tmp_path)


def test_files_come_back_by_name(folder: StorageFolder, tmp_path: Path) -> None:
    assert folder.files() == []
    folder.write("b", iter([b"12", b"3"]))
    folder.subfolder("deep", "er").write("a", iter([b"x"]))
    folder.write("a", iter([]))
    assert folder.files() == [StoredFile("a", 0), StoredFile("b", 3)]
    assert (folder.read("b"), b"".join(folder.chunks("b"))) == (b"123", b"123")
    assert (tmp_path / "in" / "deep" / "er" / "a").read_bytes() == b"x"


def test_removing_twice_is_allowed(folder: StorageFolder) -> None:
    folder.write("a", iter([b"x"]))
    for _ in range(2):
        folder.remove("a")
    assert folder.files() == []


def test_unfinished_file_has_no_name(folder: StorageFolder) -> None:
    def interrupted_content() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        folder.write("a", interrupted_content())
    assert "a" not in [file.name for file in folder.files()]


def test_missing_file_is_unavailable(folder: StorageFolder) -> None:
    with pytest.raises(UnavailableError, match="cannot be used"):
        folder.read("nothing")


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnavailableError, match="file/in cannot be used"):
        open_folder(str(tmp_path / "file" / "in"), tmp_path).write("a", iter([b"x"]))


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("", "is not a folder"),
        ("s3://", "is not a folder"),
        ("gopher://x/y", "is not a folder"),
        ("s3://bucket/x?speed=high", "unknown option speed"),
        ("s3://me:hidden@bucket/x", "contains a password"),
        ("s3://bucket/x?secret_key=hidden", "contains a password"),
        ("s3://[bucket/x", "cannot be read"),
        ("s3://bucket//x", "a folder in the path has no name"),
    ],
)
def test_impossible_folder_is_refused(uri: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=reason) as raised:
        open_folder(uri, tmp_path)
    assert "hidden" not in str(raised.value)


def test_silent_store_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    uri = "s3://bucket/x?scheme=http&region=here&endpoint_override=127.0.0.1:1"
    with pytest.raises(UnavailableError, match="s3://bucket/x cannot be used: it cannot be reached; check"):
        open_folder(uri, tmp_path).files()
