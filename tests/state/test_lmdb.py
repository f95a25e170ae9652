import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.state import encoding
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.store import NotOwnerError, Positions, Store, WriteBatch
from tests.state.contract import StoreContract
from tests.state.values import WINDOW, at, decision, look_up, recall, saved, write

Opening = Callable[..., LmdbStore]


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Opening]:
    """Opens the store of this test; what it opened is closed at the end."""
    opened: list[LmdbStore] = []

    def open_store(path: Path = tmp_path / "0", **options: object) -> LmdbStore:
        opened.append(LmdbStore(path, WINDOW, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def python(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts another process, with `path` the store's folder and everything imported that a store needs."""
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


class TestLmdbStore(StoreContract):
    @pytest.fixture
    def store(self, opening: Opening) -> Store:
        return opening()


def test_everything_is_there_after_opening_again(opening: Opening) -> None:
    store = opening()
    store.take_ownership("me", expected="")
    store.set_code_digest("abc", token="me")
    write(store, clock=5, states={"a": saved()}, remembered={("a", "1"): decision(5)})
    store.close()
    again = opening()
    assert (again.token(), again.code_digest(), again.positions()) == (
        "me",
        "abc",
        Positions(commands=1, clock=5),
    )
    assert (look_up(again, "a"), recall(again, "a", "1")) == (saved(), decision(5))


def test_the_map_grows_and_the_change_is_made_once(opening: Opening) -> None:
    store = opening(map_size=256 << 10)
    states = {f"{n:06}": saved(1, b"x" * 1000) for n in range(5_000)}
    write(store, states=states, remembered={("a", str(n)): decision(offset=n) for n in range(5_000)})
    assert dict(store.items()) == states
    assert recall(store, "a", "4999") == decision(offset=4999)
    assert store.positions().commands == 1


def test_a_store_in_a_grown_map_can_still_be_looked_into(opening: Opening) -> None:
    store = opening(map_size=256 << 10)
    for n in range(20):
        write(store, states={f"{n}/{m}": saved(n + 1, b"x" * 500) for m in range(500)})
        assert look_up(store, f"{n}/499") == saved(n + 1, b"x" * 500)


def test_dropped_generations_give_their_room_back(opening: Opening, tmp_path: Path) -> None:
    store = opening()
    for n in range(12):
        ids = {("a", f"{n}/{m}"): decision(n * WINDOW) for m in range(3_000)}
        write(store, clock=n * WINDOW, remembered=ids)
        if n == 4:
            settled = (tmp_path / "0" / "data.mdb").stat().st_size
    assert (tmp_path / "0" / "data.mdb").stat().st_size < 1.2 * settled


@pytest.mark.pins("state-is-events")
@pytest.mark.parametrize("step", ["states", "ids"])
def test_a_process_killed_inside_a_change_leaves_what_was_before(
    opening: Opening, python: Callable[[str], subprocess.Popen[str]], step: str
) -> None:
    before = opening()
    write(before, clock=1, states={"a": saved(1)}, remembered={("a", "1"): decision(1)})
    before.close()
    killed = python(f"""
        put = lmdb_store._put
        def put_and_die(txn, db, entries):
            put(txn, db, entries)
            if entries and {step!r} == ("states" if entries[0][0] == b"a" else "ids"):
                os.kill(os.getpid(), signal.SIGKILL)
        lmdb_store._put = put_and_die
        states = {{"a": saved(2), **{{f"b{{n}}": saved(1, b"x" * 500) for n in range(20_000)}}}}
        write(LmdbStore(path, WINDOW), clock=5000, states=states, remembered={{("a", "2"): decision(5000)}})
    """)
    assert killed.wait(30) == -9
    after = opening()
    assert dict(after.items()) == {"a": saved(1)}
    assert (recall(after, "a", "1"), recall(after, "a", "2")) == (decision(1), None)
    assert after.positions() == Positions(commands=1, clock=1)
    write(after, states={"a": saved(2)})


def test_another_process_sees_whole_changes_only(
    opening: Opening, python: Callable[[str], subprocess.Popen[str]]
) -> None:
    store = opening()
    write(store, states={f"{n:03}": saved(1) for n in range(500)})
    reader = python("""
        store = LmdbStore(path, WINDOW, readonly=True)
        seen = []
        while len(seen) < 30:
            versions = {saved.version for _, saved in store.items()}
            assert len(versions) == 1, versions
            seen += versions - {*seen}
        assert seen == sorted(seen)
    """)
    for version in range(2, 100_000):
        write(store, states={f"{n:03}": saved(version) for n in range(500)})
        if reader.poll() is not None:
            break
    assert reader.wait(30) == 0


@pytest.mark.parametrize(
    ("act", "answer"),
    [("look_up(store, '1999').version", "4\n"), ("store.take_ownership('new', expected='')", "None\n")],
)
def test_another_process_follows_when_the_map_has_grown(
    opening: Opening, python: Callable[[str], subprocess.Popen[str]], act: str, answer: str
) -> None:
    store = opening()
    other = python(f"""
        store = LmdbStore(path, WINDOW, map_size=256 << 10)
        print(store.count(), flush=True)
        input()
        print({act}, flush=True)
    """)
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "0\n"
    write(store, states={str(n): saved(4, b"x" * 1000) for n in range(2_000)})
    print(file=other.stdin, flush=True)
    assert other.stdout.readline() == answer


@pytest.mark.pins("one-owner")
def test_a_paused_owner_that_wakes_up_writes_nothing(
    opening: Opening, python: Callable[[str], subprocess.Popen[str]]
) -> None:
    store = opening()
    paused = python("""
        store = LmdbStore(path, WINDOW)
        store.take_ownership("old", expected="")
        begun = store.positions()
        print("paused", flush=True)
        input()
        try:
            store.apply(lmdb_store.WriteBatch("old", begun, at(0, 1), {"a": saved(1)}))
        except lmdb_store.NotOwnerError:
            print("refused", flush=True)
    """)
    assert paused.stdin and paused.stdout
    assert paused.stdout.readline() == "paused\n"
    store.take_ownership("new", expected="old")
    write(store, states={"a": saved(2)})
    print(file=paused.stdin, flush=True)
    assert paused.stdout.readline() == "refused\n"
    assert look_up(store, "a") == saved(2)


def test_a_full_disk_is_a_clear_error_and_changes_nothing(opening: Opening) -> None:
    store = opening()
    write(store, states={"a": saved(1)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(ConfigurationError, match="disk is full") as raised:
            write(store, states={str(n): saved(2, b"x" * 1000) for n in range(5_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.exit_code == 3
    assert dict(store.items()) == {"a": saved(1)}
    write(store, states={"a": saved(2)})


@pytest.mark.parametrize("length", [0, 100, 4096, 5000, 8192, 20_000])
def test_a_file_that_was_cut_short_is_refused_not_touched(
    opening: Opening, tmp_path: Path, length: int
) -> None:
    store = opening()
    write(store, states={str(n): saved(1, b"x" * 500) for n in range(500)})
    store.close()
    with (tmp_path / "0" / "data.mdb").open("r+b") as file:
        file.truncate(length)
    if length:
        with pytest.raises(CorruptError):
            opening()
    else:
        assert opening().identity() == b""


def test_a_collision_of_digests_is_an_error_not_an_answer(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "shorten", lambda key: b"\xffsame")
    store = opening()
    write(store, states={"a" * 600: saved()}, remembered={("a" * 600, "1"): decision()})
    assert (look_up(store, "a" * 600), recall(store, "a" * 600, "1")) == (saved(), decision())
    with pytest.raises(ContradictionError):
        look_up(store, "b" * 600)
    with pytest.raises(ContradictionError):
        recall(store, "b" * 600, "1")


def test_a_folder_opens_once_in_a_process(opening: Opening) -> None:
    opening()
    with pytest.raises(ConfigurationError, match="open in this process already"):
        opening()


def test_no_owner_no_change_even_while_the_map_must_grow(opening: Opening) -> None:
    store = opening(map_size=256 << 10)
    with pytest.raises(NotOwnerError):
        store.apply(
            WriteBatch("other", Positions(), at(0, 1), {str(n): saved(1, b"x" * 999) for n in range(999)})
        )
    assert store.count() == 0


def test_a_reader_that_was_killed_does_not_make_the_file_grow(
    opening: Opening, python: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    store = opening()
    states = {str(n): saved(1, b"x" * 500) for n in range(500)}
    write(store, states=states)
    reader = python("""
        with LmdbStore(path, WINDOW, readonly=True).view():
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert reader.wait(30) == -9
    for n in range(20):
        write(store, states=states)
        if n == 4:
            settled = (tmp_path / "0" / "data.mdb").stat().st_size
    assert (tmp_path / "0" / "data.mdb").stat().st_size == settled
