"""A shard that another process holds forever, or that is damaged, is quarantined: never trusted, never deleted."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cqrs_cli import failpoints
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.limits import Limits
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_readonly, open_shard
from tests.state.shards import IDENTITY, read_marker
from tests.state.values import decision, find_decision, find_state, stored_state, write

PAGE = 4096
STATES = {f"a{n:03}": stored_state(1, b'{"balance":%d}' % n) for n in range(400)}
DECISIONS = {(id, "c"): decision(offset=n) for n, id in enumerate(STATES)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed shard with some contents."""
    path = tmp_path / "bank_account" / "0"
    store = open_shard(path, IDENTITY).store
    write(store, states=STATES, dedup_entries=DECISIONS)
    store.close()
    return path


@pytest.fixture
def stopped_owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    """An owner that was paused in the middle of a change."""
    code = f"""
import os, signal
from tests.state.test_shard_faults import *
store = open_shard(Path({str(path)!r}), IDENTITY).store
drop = store._drop_segments
def stop(*arguments):
    drop(*arguments)
    os.kill(os.getpid(), signal.SIGSTOP)
store._drop_segments = stop
write(store, states={{"late": stored_state()}})
store.close()
"""
    with subprocess.Popen([sys.executable, "-c", code], text=True) as process:
        wait_result = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert wait_result is not None and wait_result.si_code == os.CLD_STOPPED
        yield process
        process.kill()


@pytest.mark.program
def test_stopped_process_keeps_its_shard(path: Path, stopped_owner: subprocess.Popen[str]) -> None:
    opened_shard = open_shard(path, IDENTITY, limits=Limits(change=0.3))
    assert opened_shard.reason == "a stopped process holds its lock in the middle of a change"
    write(opened_shard.store, states={"new": stored_state()})
    stopped_owner.send_signal(signal.SIGCONT)
    assert stopped_owner.wait(30) == 0
    assert dict(opened_shard.store.items()) == {"new": stored_state()}
    opened_shard.store.close()
    assert opened_shard.quarantined and read_marker(opened_shard.quarantined).state == "clean"
    quarantined_store = LmdbStore(opened_shard.quarantined, IDENTITY.window_ms, readonly=True)
    assert find_state(quarantined_store, "late") == stored_state()
    quarantined_store.close()


@pytest.mark.program
def test_shard_of_killed_process_opens(path: Path, stopped_owner: subprocess.Popen[str]) -> None:
    with failpoints.call_at("shard.opening", stopped_owner.kill):
        opened_shard = open_shard(path, IDENTITY)
    assert not opened_shard.is_new
    assert dict(opened_shard.store.items()) == STATES
    opened_shard.store.close()


@pytest.mark.program
def test_reader_ignores_stopped_process(path: Path, stopped_owner: subprocess.Popen[str]) -> None:
    reader = open_readonly(path)
    assert reader is not None and dict(reader.items()) == STATES
    reader.close()


def invert(page: bytes) -> bytes:
    return bytes(255 - byte for byte in page)


@pytest.mark.parametrize("damage", [invert, lambda page: bytes(len(page))], ids=["flipped", "zeroed"])
def test_damaged_page_never_answers_wrongly(path: Path, damage: Callable[[bytes], bytes]) -> None:
    data = (path / "data.mdb").read_bytes()
    damaged_count = 0
    for offset in range(0, len(data), PAGE):
        with (path / "data.mdb").open("r+b") as file:
            file.write(data[:offset] + damage(data[offset : offset + PAGE]) + data[offset + PAGE :])
        try:
            check_contents(path)
        except CorruptError:
            damaged_count += 1
    assert damaged_count > 10


def check_contents(path: Path) -> None:
    store = LmdbStore(path, IDENTITY.window_ms)
    try:
        for (id, command), remembered in DECISIONS.items():
            assert find_state(store, id) == STATES[id]
            assert find_decision(store, id, command) == remembered
        assert dict(store.items()) == STATES
    finally:
        store.close_without_sync()


def test_damaged_shard_is_quarantined(path: Path) -> None:
    open_shard(path, IDENTITY).store.close_as_damaged()
    assert open_readonly(path) is None
    reopened = open_shard(path, IDENTITY)
    assert (reopened.is_new, reopened.reason) == (True, "its owner found damage")
    assert reopened.quarantined and (reopened.quarantined / "data.mdb").exists()
    reopened.store.close()
