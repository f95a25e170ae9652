"""Folders and files are readable by their owner only, with any umask, and files are complete or missing."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.storage import private
from cqrs_cli.storage.folder import open_folder


@pytest.fixture(autouse=True)
def permissive_umask() -> Iterator[None]:
    """A umask that removes no rights."""
    umask = os.umask(0)
    yield
    os.umask(umask)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_folders_are_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private.make_folder(tmp_path / "a/b")
    assert [mode(tmp_path / name) for name in ("a/b", "a", ".")] == [0o700, 0o700, 0o755]


def test_files_that_exist_keep_their_rights(tmp_path: Path) -> None:
    (tmp_path / "old").touch(0o644)
    for name in ("old", "new"):
        open(tmp_path / name, "ab", opener=private.opener).close()
    assert [mode(tmp_path / name) for name in ("old", "new")] == [0o644, 0o600]


def test_stored_files_are_private(tmp_path: Path) -> None:
    """Checkpoints contain states."""
    open_folder("in/deep", tmp_path).write("a", iter([b"x"]))
    assert [mode(tmp_path / name) for name in ("in/deep/a", "in/deep", "in")] == [0o600, 0o700, 0o700]


def test_file_is_replaced_completely_or_not(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with private.atomic_write(path) as file:
        file.write(b"first")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), private.atomic_write(path) as file:
        file.write(b"half")
        _ = 1 / 0
    assert (path.read_bytes(), mode(path), [*tmp_path.iterdir()]) == (b"first", 0o600, [path])


def test_draft_has_only_one_writer(tmp_path: Path) -> None:
    with private.atomic_write(tmp_path / "a", "draft", rights=0o644) as file:
        with pytest.raises(FileExistsError), private.atomic_write(tmp_path / "a", "draft"):
            """The other one has not begun."""
        file.write(b"whole")
    assert ((tmp_path / "a").read_bytes(), mode(tmp_path / "a")) == (b"whole", 0o644)
