"""Several processes on one store: a killed process, a paused process, a reader."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.store import Positions
from tests.state.shards import StartPython
from tests.state.values import WINDOW, OpenStore, decision, find_decision, find_state, stored_state, write


@pytest.fixture
def start_python(tmp_path: Path) -> Iterator[StartPython]:
    """A function that starts another process with the store's folder as `path` and all imports that a store needs."""
    started: list[subprocess.Popen[str]] = []
    prelude = f"""
import os, signal, sys
from pathlib import Path
from cqrs_cli.state import lmdb_store
from cqrs_cli.state.lmdb_store import LmdbStore
from tests.state.values import *
path = Path({str(tmp_path / "0")!r})
"""

    def start(code: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", prelude + textwrap.dedent(code)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


@pytest.mark.program
@pytest.mark.covers("state-is-events")
@pytest.mark.parametrize("step", ["states", "ids"])
def test_killed_change_leaves_old_state(open_store: OpenStore, start_python: StartPython, step: str) -> None:
    store_before = open_store()
    write(store_before, clock=1, states={"a": stored_state(1)}, dedup_entries={("a", "1"): decision(1)})
    store_before.close()
    process = start_python(f"""
        put = lmdb_store._put
        def put_and_die(txn, db, entries):
            put(txn, db, entries)
            if entries and {step!r} == ("states" if entries[0][0] == b"a" else "ids"):
                os.kill(os.getpid(), signal.SIGKILL)
        lmdb_store._put = put_and_die
        states = {{"a": stored_state(2), **{{f"b{{n}}": stored_state(1, b"x" * 500) for n in range(20_000)}}}}
        write(LmdbStore(path, WINDOW), clock=5000, states=states, dedup_entries={{("a", "2"): decision(5000)}})
    """)
    assert process.wait(30) == -9
    store_after = open_store()
    assert dict(store_after.items()) == {"a": stored_state(1)}
    assert (find_decision(store_after, "a", "1"), find_decision(store_after, "a", "2")) == (decision(1), None)
    assert store_after.positions() == Positions(commands=1, clock=1)
    write(store_after, states={"a": stored_state(2)})


@pytest.mark.program
def test_another_process_sees_whole_changes_only(open_store: OpenStore, start_python: StartPython) -> None:
    store = open_store()
    write(store, states={f"{n:03}": stored_state(1) for n in range(500)})
    reader = start_python("""
        store = LmdbStore(path, WINDOW, readonly=True)
        seen = []
        while len(seen) < 30:
            versions = {saved.version for _, saved in store.items()}
            assert len(versions) == 1, versions
            seen += versions - {*seen}
        assert seen == sorted(seen)
    """)
    for version in range(2, 100_000):
        write(store, states={f"{n:03}": stored_state(version) for n in range(500)})
        if reader.poll() is not None:
            break
    assert reader.wait(30) == 0


@pytest.mark.program
@pytest.mark.parametrize(
    ("expression", "output"),
    [("find_state(store, '1999').version", "4\n"), ("store.take_ownership('new', expected='')", "None\n")],
)
def test_other_process_follows_grown_map(
    open_store: OpenStore, start_python: StartPython, expression: str, output: str
) -> None:
    store = open_store()
    other = start_python(f"""
        store = LmdbStore(path, WINDOW, map_size=256 << 10)
        print(store.count(), flush=True)
        input()
        print({expression}, flush=True)
    """)
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "0\n"
    write(store, states={str(n): stored_state(4, b"x" * 1000) for n in range(2_000)})
    print(file=other.stdin, flush=True)
    assert other.stdout.readline() == output


@pytest.mark.program
@pytest.mark.covers("one-owner")
def test_resumed_owner_writes_nothing(open_store: OpenStore, start_python: StartPython) -> None:
    store = open_store()
    owner = start_python("""
        store = LmdbStore(path, WINDOW)
        store.take_ownership("old", expected="")
        begun = store.positions()
        print("paused", flush=True)
        input()
        try:
            store.apply(lmdb_store.WriteBatch("old", begun, positions_at(0, 1), {"a": stored_state(1)}))
        except lmdb_store.NotOwnerError:
            print("refused", flush=True)
    """)
    assert owner.stdin and owner.stdout
    assert owner.stdout.readline() == "paused\n"
    store.take_ownership("new", expected="old")
    write(store, states={"a": stored_state(2)})
    print(file=owner.stdin, flush=True)
    assert owner.stdout.readline() == "refused\n"
    assert find_state(store, "a") == stored_state(2)


@pytest.mark.program
def test_killed_reader_frees_its_pages(
    open_store: OpenStore, start_python: StartPython, tmp_path: Path
) -> None:
    store = open_store()
    states = {str(n): stored_state(1, b"x" * 500) for n in range(500)}
    write(store, states=states)
    reader = start_python("""
        with LmdbStore(path, WINDOW, readonly=True).view():
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert reader.wait(30) == -9
    for n in range(20):
        write(store, states=states)
        if n == 4:
            size_before = (tmp_path / "0" / "data.mdb").stat().st_size
    assert (tmp_path / "0" / "data.mdb").stat().st_size == size_before


def kill_readers(start_python: StartPython, count: int) -> None:
    """Run processes that are killed while they read the store."""
    parent = start_python(f"""
        for _ in range({count}):
            if (child := os.fork()) == 0:
                with LmdbStore(path, WINDOW, readonly=True).view():
                    os.kill(os.getpid(), signal.SIGKILL)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL
    """)
    assert parent.wait(60) == 0


@pytest.mark.program
def test_killed_readers_leave_room(open_store: OpenStore, start_python: StartPython) -> None:
    """LMDB's default reader table was full after 125 killed readers. Then no process could read the shard, not even its
    owner.
    """
    store = open_store()
    write(store, states={"a": stored_state(1)})
    kill_readers(start_python, 130)
    assert find_state(store, "a") == stored_state(1)


@pytest.mark.program
def test_full_reader_table_is_cleared(tmp_path: Path, start_python: StartPython) -> None:
    """Live readers clear dead readers, too. Otherwise readers that opened the store earlier would not find them."""
    (tmp_path / "0").mkdir()
    store = LmdbStore(tmp_path / "0", WINDOW, max_readers=3)
    write(store, states={"a": stored_state(1)})
    readers = [
        start_python("""
            store = LmdbStore(path, WINDOW, readonly=True)
            print("open", flush=True)
            input()
            with store.view():
                os.kill(os.getpid(), signal.SIGKILL)
        """)
        for _ in range(3)
    ]
    for reader in readers:
        assert reader.stdout and reader.stdout.readline() == "open\n"
    for reader in readers:
        print(file=reader.stdin, flush=True)
        assert reader.wait(30) == -9
    assert find_state(store, "a") == stored_state(1)
    store.close()


@pytest.mark.program
def test_same_process_id_elsewhere_is_named(open_store: OpenStore, start_python: StartPython) -> None:
    """Two containers on one state folder cause this. LMDB locks the byte of its process id in the lock file."""
    open_store().close()
    other = start_python(f"""
        import fcntl
        file = open(path / "lock.mdb", "r+b")
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, {os.getpid()})
        print("locked", flush=True)
        input()
    """)
    assert other.stdout and other.stdout.readline() == "locked\n"
    with pytest.raises(ConfigurationError, match=f"with the same id, {os.getpid()}, in another") as raised:
        open_store().count()
    assert "PID namespace" in raised.value.hint
