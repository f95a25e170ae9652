"""The store in LMDB keeps the contract, and its file is never damaged."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.state import encoding, environment
from cqrs_cli.state.errors import REBUILD, CorruptError
from cqrs_cli.state.store import NotOwnerError, Positions, Store, WriteBatch
from tests.state.contract import StoreContract
from tests.state.values import WINDOW, OpenStore, at, decision, look_up, recall, saved, write
from tests.support.disks import limit_file_size
from tests.support.waiting import eventually


class TestLmdbStore(StoreContract):
    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        return open_store()


def test_everything_is_there_after_opening_again(open_store: OpenStore) -> None:
    store = open_store()
    store.take_ownership("me", expected="")
    store.set_code_digest("abc", token="me")
    write(store, clock=5, states={"a": saved()}, remembered={("a", "1"): decision(5)})
    store.close()
    again = open_store()
    assert (again.token(), again.code_digest(), again.positions()) == (
        "me",
        "abc",
        Positions(commands=1, clock=5),
    )
    assert (look_up(again, "a"), recall(again, "a", "1")) == (saved(), decision(5))


def test_closed_store_names_its_folder(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.close()
    uses: list[Callable[[], object]] = [
        store.count,
        lambda: list(store.items()),
        lambda: look_up(store, "a"),
        lambda: store.page("", "", 1),
        lambda: store.snapshot().__enter__(),
        lambda: store.copy(tmp_path),
        store.sync,
    ]
    for use in uses:
        with pytest.raises(ConfigurationError, match=f"the state folder {tmp_path}/0 cannot be used"):
            use()


def test_abandoned_store_needs_no_closing(open_store: OpenStore) -> None:
    store = open_store()
    store.close_without_sync()
    store.close()


def test_databases_stay_as_they_are(open_store: OpenStore, tmp_path: Path) -> None:
    """Shards of other releases are read with these names."""
    store = open_store()
    store.set_identity(b"x")
    store.close()
    with lmdb.open(str(tmp_path / "0"), max_dbs=5, readonly=True) as env, env.begin() as txn:
        assert [name for name, _ in txn.cursor()] == [b"deferred", b"ids.0", b"ids.1", b"meta", b"states"]
        meta = env.open_db(b"meta", txn, create=False)
        assert txn.get(b"identity", db=meta) == b"x"


def test_files_are_for_their_user_alone(open_store: OpenStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        open_store()
    finally:
        os.umask(before)
    assert (tmp_path / "0" / "data.mdb").stat().st_mode & 0o777 == 0o600


def test_a_thousand_may_look_at_once(tmp_path: Path) -> None:
    with environment.open_environment(tmp_path, environment.MAP_SIZE, readonly=False) as env:
        assert env.max_readers() == 1000


def test_waiting_for_others_is_told(open_store: OpenStore) -> None:
    store = open_store()
    waiting = threading.Thread(target=write, args=(store,), kwargs={"states": {"a": saved()}})
    with store._env.begin(write=True):
        assert store.seconds_waiting_for_lock == 0.0
        waiting.start()
        eventually(lambda: store.seconds_waiting_for_lock > 0.0)
        assert waiting.is_alive()
    waiting.join(30)
    assert (store.seconds_waiting_for_lock, look_up(store, "a")) == (0.0, saved())


def test_pages_follow_the_order_of_ids(open_store: OpenStore) -> None:
    store = open_store()
    write(store, states={name: saved() for name in ("a1", "a2", "b1", "é", "x" * 600)})
    for prefix, after, limit, names in [
        ("", "", 9, ["a1", "a2", "b1", "é"]),
        ("", "", 2, ["a1", "a2"]),
        ("", "a2", 1, ["b1"]),
        ("a", "a1", 9, ["a2"]),
        ("b", "", 9, ["b1"]),
        ("c", "", 9, []),
        ("", "~", 9, ["é"]),
        ("", "ü", 9, []),
        ("", "", 0, []),
    ]:
        assert store.page(prefix, after, limit) == [(name, saved()) for name in names], (prefix, after, limit)


def test_change_survives_growing_map(open_store: OpenStore) -> None:
    store = open_store(map_size=256 << 10)
    states = {f"{n:06}": saved(1, b"x" * 1000) for n in range(5_000)}
    write(store, states=states, remembered={("a", str(n)): decision(offset=n) for n in range(5_000)})
    assert dict(store.items()) == states
    assert recall(store, "a", "4999") == decision(offset=4999)
    assert store.positions().commands == 1


def test_grown_map_opens_for_reading(open_store: OpenStore) -> None:
    store = open_store(map_size=256 << 10)
    for n in range(20):
        write(store, states={f"{n}/{m}": saved(n + 1, b"x" * 500) for m in range(500)})
        assert look_up(store, f"{n}/499") == saved(n + 1, b"x" * 500)


def test_dropped_generations_give_their_room_back(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    for n in range(12):
        ids = {("a", f"{n}/{m}"): decision(n * WINDOW) for m in range(3_000)}
        write(store, clock=n * WINDOW, remembered=ids)
        if n == 4:
            settled = (tmp_path / "0" / "data.mdb").stat().st_size
    assert (tmp_path / "0" / "data.mdb").stat().st_size < 1.2 * settled


def test_full_disk_changes_nothing(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    write(store, states={"a": saved(1)})
    with (
        limit_file_size(1 << 20),
        pytest.raises(ConfigurationError, match=f"disk is full .* in {tmp_path}/0 ") as raised,
    ):
        write(store, states={str(n): saved(2, b"x" * 1000) for n in range(5_000)})
    assert raised.value.exit_code == 3
    assert dict(store.items()) == {"a": saved(1)}
    write(store, states={"a": saved(2)})


@pytest.mark.parametrize("length", [0, 100, 4096, 5000, 8192, 20_000, -1])
def test_truncated_file_is_not_touched(open_store: OpenStore, tmp_path: Path, length: int) -> None:
    store = open_store()
    write(store, states={str(n): saved(1, b"x" * 500) for n in range(500)})
    store.close()
    with (tmp_path / "0" / "data.mdb").open("r+b") as file:
        file.truncate(length if length >= 0 else file.seek(length, os.SEEK_END))
    if length:
        with pytest.raises(CorruptError) as refused:
            open_store()
        assert refused.value.hint == REBUILD and str(tmp_path / "0") in str(refused.value)
    else:
        assert open_store().identity() == b""


def test_digest_collision_is_an_error(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "shorten", lambda key: b"\xffsame")
    store = open_store()
    write(store, states={"a" * 600: saved()}, remembered={("a" * 600, "1"): decision()})
    assert (look_up(store, "a" * 600), recall(store, "a" * 600, "1")) == (saved(), decision())
    with pytest.raises(ContradictionError):
        look_up(store, "b" * 600)
    with pytest.raises(ContradictionError):
        recall(store, "b" * 600, "1")


def test_folder_opens_once_per_process(open_store: OpenStore) -> None:
    open_store()
    with pytest.raises(ConfigurationError, match="open in this process already"):
        open_store()


def test_growing_map_still_checks_owner(open_store: OpenStore) -> None:
    store = open_store(map_size=256 << 10)
    with pytest.raises(NotOwnerError, match=r"the shard is at \(.* ''\), not \(.* 'other'\)$"):
        store.apply(
            WriteBatch("other", Positions(), at(0, 1), {str(n): saved(1, b"x" * 999) for n in range(999)})
        )
    assert store.count() == 0
