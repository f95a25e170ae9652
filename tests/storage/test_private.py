"""Folders and files of their owner only, whatever the umask would allow."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.storage import private
from cqrs_cli.storage.folder import open_folder


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_folders_are_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private.make_folder(tmp_path / "a/b")
    assert [mode(tmp_path / one) for one in ("a/b", "a", ".")] == [0o700, 0o700, 0o755]


def test_files_that_exist_keep_their_rights(tmp_path: Path) -> None:
    (tmp_path / "old").touch(0o644)
    for name in ("old", "new"):
        open(tmp_path / name, "ab", opener=private.opener).close()
    assert [mode(tmp_path / one) for one in ("old", "new")] == [0o644, 0o600]


def test_stored_files_are_private(tmp_path: Path) -> None:
    """Checkpoints are: they hold states."""
    open_folder("in/deep", tmp_path).write("a", iter([b"x"]))
    assert [mode(tmp_path / one) for one in ("in/deep/a", "in/deep", "in")] == [0o600, 0o700, 0o700]
