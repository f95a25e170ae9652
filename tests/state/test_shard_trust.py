"""A shard is opened again only if it cannot have been written partly."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from cqrs_cli.state import shard
from cqrs_cli.state.shutdown_marker import boot_id, distrust_reason
from tests.state.shards import (
    Opening,
    Python,
    change_marker,
    fill_and_close,
    fill_and_kill,
    read_marker,
)
from tests.state.values import look_up, saved


def test_empty_folder_gets_fresh_shard(opening: Opening) -> None:
    opened = opening()
    assert (opened.is_new, opened.quarantined, opened.reason) == (True, None, "")


def test_cleanly_closed_shard_opens_again(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    assert read_marker(path).state == "clean"
    again = opening()
    assert (again.is_new, look_up(again.store, "a")) == (False, saved())


def test_working_marker_precedes_every_write(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    before = (path / "data.mdb").stat()
    opening()
    marker = read_marker(path)
    assert (marker.state, marker.boot, marker.changed) == ("working", boot_id(), before.st_mtime_ns)
    assert (marker.device, marker.inode) == (before.st_dev, before.st_ino)


class SyncRecorder:
    """An LMDB environment that reports each sync."""

    def __init__(self, env: lmdb.Environment, tell: Callable[[str], None]) -> None:
        self.env = env
        self.tell = tell

    def sync(self, force: bool = False) -> None:
        self.env.sync(force)
        self.tell(f"sync {force}")

    def __getattr__(self, name: str) -> object:
        return getattr(self.env, name)


def test_data_is_synced_before_each_marker(
    opening: Opening, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    lmdb_open = lmdb.open
    monkeypatch.setattr(
        lmdb, "open", lambda *args, **kwargs: SyncRecorder(lmdb_open(*args, **kwargs), told.append)
    )
    monkeypatch.setattr(shard, "write_marker", lambda folder, state: told.append(state))
    opening().store.close()
    assert told == ["sync True", "working", "sync True", "clean"]


@pytest.mark.program
def test_killed_process_costs_nothing(opening: Opening, python: Python) -> None:
    fill_and_kill(python)
    opened = opening()
    assert (opened.is_new, look_up(opened.store, "a")) == (False, saved())


@pytest.mark.program
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"boot": "another"}, "the machine was restarted while the shard was in use"),
        ({"boot": ""}, "the machine was restarted while the shard was in use"),
        ({"inode": 1}, "it is a copy of a shard that was in use"),
        ({"device": 1}, "it is a copy of a shard that was in use"),
    ],
)
def test_unclean_shard_needs_same_boot(
    opening: Opening,
    path: Path,
    changes: dict[str, object],
    reason: str,
    python: Python,
) -> None:
    fill_and_kill(python)
    change_marker(path, **changes)
    opened = opening()
    assert (opened.is_new, opened.reason, opened.store.count()) == (True, reason, 0)
    assert opened.quarantined and (opened.quarantined / "data.mdb").exists()


@pytest.mark.program
def test_unknown_boot_is_not_trusted(opening: Opening, path: Path, python: Python) -> None:
    fill_and_kill(python)
    change_marker(path, boot="")
    assert distrust_reason(path, boot="") == "the machine was restarted while the shard was in use"
    assert opening().is_new


@pytest.mark.parametrize("changes", [{"inode": 1}, {"length": 1}, {"changed": 1}])
def test_changed_clean_shard_is_set_aside(opening: Opening, path: Path, changes: dict[str, object]) -> None:
    fill_and_close(opening)
    change_marker(path, **changes)
    assert opening().reason == "it is not the file that was closed cleanly"


def test_clean_shard_survives_restart_and_move(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    change_marker(path, boot="another", device=1)
    assert not opening().is_new


@pytest.mark.covers("state-is-events")
def test_copied_shard_is_not_trusted(opening: Opening, path: Path) -> None:
    fill_and_close(opening)
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)
    assert opening().reason == "it is not the file that was closed cleanly"


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"state":"perhaps"}'])
def test_shard_without_readable_marker_is_refused(
    opening: Opening, path: Path, content: bytes | None
) -> None:
    fill_and_close(opening)
    (path / "mark.json").unlink()
    if content is not None:
        (path / "mark.json").write_bytes(content)
    opened = opening()
    assert opened.is_new
    assert "mark.json" in opened.reason


@pytest.mark.program
@pytest.mark.covers("state-is-events")
@pytest.mark.parametrize("length", [0, 100, 5000, 20_000])
def test_truncated_shard_is_set_aside(opening: Opening, path: Path, python: Python, length: int) -> None:
    fill_and_kill(python)
    os.truncate(path / "data.mdb", length)
    opened = opening()
    assert opened.is_new
    assert opened.quarantined
