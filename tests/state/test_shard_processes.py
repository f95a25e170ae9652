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
from tests.state.shards import IDENTITY, Opening, Python, change_marker, fill_and_close, read_marker
from tests.state.values import saved


@pytest.mark.program
def test_last_process_to_close_marks_clean(opening: Opening, path: Path, python: Python) -> None:
    other = python("""
        print("open", flush=True)
        input()
        opened.store.close()
    """)
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "open\n"
    opening().store.close()
    assert read_marker(path).state == "working"
    print(file=other.stdin, flush=True)
    assert other.wait(30) == 0
    assert read_marker(path).state == "clean"


@pytest.mark.program
def test_open_shard_survives_being_set_aside(opening: Opening, path: Path, python: Python) -> None:
    other = python("""
        print("open", flush=True)
        input()
        write(opened.store, states={"old": saved()})
        opened.store.close()
    """)
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "open\n"
    successor = opening(msgspec.structs.replace(IDENTITY, revision=2))
    print(file=other.stdin, flush=True)
    assert other.wait(30) == 0
    assert successor.quarantined
    assert read_marker(successor.quarantined).state == "clean"
    assert read_marker(path).state == "working"
    assert successor.store.count() == 0


@pytest.mark.program
def test_racing_processes_make_one_shard(opening: Opening, path: Path, python: Python) -> None:
    fill_and_close(opening)
    change_marker(path, inode=1)
    racing = [python("print(opened.is_new, flush=True); input()") for _ in range(4)]
    assert sorted(r.stdout.readline() for r in racing if r.stdout) == ["False\n"] * 3 + ["True\n"]
    assert len(list(path.parent.iterdir())) == 2


def test_waiting_for_judge_ends(opening: Opening, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    with shard._lock_parent(path, Limits()), pytest.raises(UnavailableError, match="opening or closing"):
        opening(limits=Limits(lock=0.05))


def test_shard_opens_once_per_process(opening: Opening) -> None:
    opening()
    with pytest.raises(ConfigurationError, match="open in this process already"):
        opening()


@pytest.mark.program
def test_reader_does_not_disturb_owner(opening: Opening, path: Path, python: Python) -> None:
    owner = python("""
        write(opened.store, states={"a": saved()})
        print("written", flush=True)
        input()
        opened.store.close()
    """)
    assert owner.stdin and owner.stdout
    assert owner.stdout.readline() == "written\n"
    look = open_readonly(path)
    assert look is not None
    assert dict(look.items()) == {"a": saved()}
    print(file=owner.stdin, flush=True)
    assert owner.wait(30) == 0
    look.close()
    assert read_marker(path).state == "clean"
    assert not opening().is_new


def test_untrusted_shard_shows_nothing(opening: Opening, path: Path) -> None:
    assert open_readonly(path) is None
    fill_and_close(opening)
    change_marker(path, inode=1)
    assert open_readonly(path) is None
    assert path.exists()


def test_held_shard_is_waited_for(opening: Opening, path: Path) -> None:
    """The shard's own lock is never held exclusively for long."""
    opening().store.close()
    folder = os.open(path, os.O_RDONLY)
    try:
        assert try_lock(folder)
        with pytest.raises(UnavailableError) as raised:
            opening(limits=Limits(lock=0))
    finally:
        os.close(folder)
    assert f"opening or closing the state in {path} for 0 s" in raised.value.message
    assert raised.value.hint == "end a stopped `cqrs run`, if there is one, then try again"


def test_shard_half_made_is_let_go(opening: Opening) -> None:
    """The disk has no space for the first marker."""

    def full() -> None:
        raise OSError(errno.ENOSPC, "full")

    with failpoints.call_at("shard.opening", full), pytest.raises(ConfigurationError, match="no space left"):
        opening()
    assert opening().is_new
