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
    OpenTestShard,
    StartPython,
    change_marker,
    fill_and_close,
    fill_and_kill,
    read_marker,
)
from tests.state.values import find_state, stored_state


def test_empty_folder_gets_fresh_shard(open_test_shard: OpenTestShard) -> None:
    opened_shard = open_test_shard()
    assert (opened_shard.is_new, opened_shard.quarantined, opened_shard.reason) == (True, None, "")


def test_cleanly_closed_shard_opens_again(open_test_shard: OpenTestShard, path: Path) -> None:
    fill_and_close(open_test_shard)
    assert read_marker(path).state == "clean"
    reopened = open_test_shard()
    assert (reopened.is_new, find_state(reopened.store, "a")) == (False, stored_state())


def test_working_marker_precedes_every_write(open_test_shard: OpenTestShard, path: Path) -> None:
    fill_and_close(open_test_shard)
    file_before = (path / "data.mdb").stat()
    open_test_shard()
    marker = read_marker(path)
    assert (marker.state, marker.boot, marker.changed) == ("working", boot_id(), file_before.st_mtime_ns)
    assert (marker.device, marker.inode) == (file_before.st_dev, file_before.st_ino)


class SyncRecorder:
    """An LMDB environment that reports each sync."""

    def __init__(self, env: lmdb.Environment, record: Callable[[str], None]) -> None:
        self.env = env
        self.record = record

    def sync(self, force: bool = False) -> None:
        self.env.sync(force)
        self.record(f"sync {force}")

    def __getattr__(self, name: str) -> object:
        return getattr(self.env, name)


def test_data_is_synced_before_each_marker(
    open_test_shard: OpenTestShard, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    lmdb_open = lmdb.open
    monkeypatch.setattr(
        lmdb, "open", lambda *args, **kwargs: SyncRecorder(lmdb_open(*args, **kwargs), events.append)
    )
    monkeypatch.setattr(shard, "write_marker", lambda folder, state: events.append(state))
    open_test_shard().store.close()
    assert events == ["sync True", "working", "sync True", "clean"]


@pytest.mark.program
def test_shard_survives_a_killed_process(open_test_shard: OpenTestShard, start_python: StartPython) -> None:
    fill_and_kill(start_python)
    opened_shard = open_test_shard()
    assert (opened_shard.is_new, find_state(opened_shard.store, "a")) == (False, stored_state())


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
    open_test_shard: OpenTestShard,
    path: Path,
    changes: dict[str, object],
    reason: str,
    start_python: StartPython,
) -> None:
    fill_and_kill(start_python)
    change_marker(path, **changes)
    opened_shard = open_test_shard()
    assert (opened_shard.is_new, opened_shard.reason, opened_shard.store.count()) == (True, reason, 0)
    assert opened_shard.quarantined and (opened_shard.quarantined / "data.mdb").exists()


@pytest.mark.program
def test_unknown_boot_is_not_trusted(
    open_test_shard: OpenTestShard, path: Path, start_python: StartPython
) -> None:
    fill_and_kill(start_python)
    change_marker(path, boot="")
    assert distrust_reason(path, boot="") == "the machine was restarted while the shard was in use"
    assert open_test_shard().is_new


@pytest.mark.parametrize("changes", [{"inode": 1}, {"length": 1}, {"changed": 1}])
def test_changed_clean_shard_is_quarantined(
    open_test_shard: OpenTestShard, path: Path, changes: dict[str, object]
) -> None:
    fill_and_close(open_test_shard)
    change_marker(path, **changes)
    assert open_test_shard().reason == "it is not the file that was closed cleanly"


def test_clean_shard_survives_restart_and_move(open_test_shard: OpenTestShard, path: Path) -> None:
    fill_and_close(open_test_shard)
    change_marker(path, boot="another", device=1)
    assert not open_test_shard().is_new


@pytest.mark.covers("state-is-events")
def test_copied_shard_is_not_trusted(open_test_shard: OpenTestShard, path: Path) -> None:
    fill_and_close(open_test_shard)
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)
    assert open_test_shard().reason == "it is not the file that was closed cleanly"


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"state":"perhaps"}'])
def test_shard_without_readable_marker_is_refused(
    open_test_shard: OpenTestShard, path: Path, content: bytes | None
) -> None:
    fill_and_close(open_test_shard)
    (path / "mark.json").unlink()
    if content is not None:
        (path / "mark.json").write_bytes(content)
    opened_shard = open_test_shard()
    assert opened_shard.is_new
    assert "mark.json" in opened_shard.reason


@pytest.mark.program
@pytest.mark.covers("state-is-events")
@pytest.mark.parametrize("length", [0, 100, 5000, 20_000])
def test_truncated_shard_is_quarantined(
    open_test_shard: OpenTestShard, path: Path, start_python: StartPython, length: int
) -> None:
    fill_and_kill(start_python)
    os.truncate(path / "data.mdb", length)
    opened_shard = open_test_shard()
    assert opened_shard.is_new
    assert opened_shard.quarantined
