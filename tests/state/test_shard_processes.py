"""Several processes may have one shard open: an owner, its successor, a reader."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from cqrs_cli import failpoints
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.state import shard
from cqrs_cli.state.limits import Limits
from cqrs_cli.state.shard import open_readonly
from cqrs_cli.system.lock import try_lock
from tests.state.shards import (
    IDENTITY,
    OpenTestShard,
    StartPython,
    change_marker,
    fill_and_close,
    read_marker,
)
from tests.state.values import stored_state


@pytest.mark.program
def test_last_process_to_close_marks_clean(
    open_test_shard: OpenTestShard, path: Path, start_python: StartPython
) -> None:
    other = start_python("""
        print("open", flush=True)
        input()
        opened.store.close()
    """)
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "open\n"
    open_test_shard().store.close()
    assert read_marker(path).state == "working"
    print(file=other.stdin, flush=True)
    assert other.wait(30) == 0
    assert read_marker(path).state == "clean"


@pytest.mark.program
def test_quarantined_shard_stays_usable_if_open(
    open_test_shard: OpenTestShard, path: Path, start_python: StartPython
) -> None:
    other = start_python("""
        print("open", flush=True)
        input()
        write(opened.store, states={"old": stored_state()})
        opened.store.close()
    """)
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "open\n"
    successor = open_test_shard(msgspec.structs.replace(IDENTITY, revision=2))
    print(file=other.stdin, flush=True)
    assert other.wait(30) == 0
    assert successor.quarantined
    assert read_marker(successor.quarantined).state == "clean"
    assert read_marker(path).state == "working"
    assert successor.store.count() == 0


@pytest.mark.program
def test_racing_processes_make_one_shard(
    open_test_shard: OpenTestShard, path: Path, start_python: StartPython
) -> None:
    fill_and_close(open_test_shard)
    change_marker(path, inode=1)
    processes = [start_python("print(opened.is_new, flush=True); input()") for _ in range(4)]
    assert sorted(process.stdout.readline() for process in processes if process.stdout) == ["False\n"] * 3 + [
        "True\n"
    ]
    assert len(list(path.parent.iterdir())) == 2


def test_wait_for_the_parent_lock_ends(
    open_test_shard: OpenTestShard, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    with shard._lock_parent(path, Limits()), pytest.raises(UnavailableError, match="opening or closing"):
        open_test_shard(limits=Limits(lock=0.05))


def test_shard_opens_once_per_process(open_test_shard: OpenTestShard) -> None:
    open_test_shard()
    with pytest.raises(ConfigurationError, match="already open in this process"):
        open_test_shard()


@pytest.mark.program
def test_reader_does_not_disturb_owner(
    open_test_shard: OpenTestShard, path: Path, start_python: StartPython
) -> None:
    owner = start_python("""
        write(opened.store, states={"a": stored_state()})
        print("written", flush=True)
        input()
        opened.store.close()
    """)
    assert owner.stdin and owner.stdout
    assert owner.stdout.readline() == "written\n"
    reader = open_readonly(path)
    assert reader is not None
    assert dict(reader.items()) == {"a": stored_state()}
    print(file=owner.stdin, flush=True)
    assert owner.wait(30) == 0
    reader.close()
    assert read_marker(path).state == "clean"
    assert not open_test_shard().is_new


def test_untrusted_shard_shows_nothing(open_test_shard: OpenTestShard, path: Path) -> None:
    assert open_readonly(path) is None
    fill_and_close(open_test_shard)
    change_marker(path, inode=1)
    assert open_readonly(path) is None
    assert path.exists()


def test_locked_shard_is_unavailable(open_test_shard: OpenTestShard, path: Path) -> None:
    """The shard's own lock is never held exclusively for long."""
    open_test_shard().store.close()
    folder = os.open(path, os.O_RDONLY)
    try:
        assert try_lock(folder)
        with pytest.raises(UnavailableError) as raised:
            open_test_shard(limits=Limits(lock=0))
    finally:
        os.close(folder)
    assert f"opening or closing the state in {path} for 0 s" in raised.value.message
    assert raised.value.hint == "end a stopped `cqrs run`, if there is one, then try again"


def test_failed_creation_releases_the_shard(open_test_shard: OpenTestShard) -> None:
    """The disk has no space for the first marker."""

    def raise_disk_full() -> None:
        raise OSError(errno.ENOSPC, "full")

    with (
        failpoints.call_at("shard.opening", raise_disk_full),
        pytest.raises(ConfigurationError, match="no space left"),
    ):
        open_test_shard()
    assert open_test_shard().is_new
