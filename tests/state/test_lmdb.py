"""The store in LMDB keeps the contract, and its file is never damaged."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.state import encoding, environment
from cqrs_cli.state.errors import REBUILD_HINT, CorruptError
from cqrs_cli.state.store import NotOwnerError, Positions, Store, WriteBatch
from tests.state.contract import StoreContract
from tests.state.values import (
    WINDOW,
    OpenStore,
    decision,
    find_decision,
    find_state,
    positions_at,
    stored_state,
    write,
)
from tests.support.disks import limit_file_size
from tests.support.waiting import eventually


class TestLmdbStore(StoreContract):
    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        return open_store()


def test_reopened_store_has_all_contents(open_store: OpenStore) -> None:
    store = open_store()
    store.take_ownership("me", expected="")
    store.set_code_digest("abc", token="me")
    write(store, clock=5, states={"a": stored_state()}, dedup_entries={("a", "1"): decision(5)})
    store.close()
    reopened_store = open_store()
    assert (reopened_store.token(), reopened_store.code_digest(), reopened_store.positions()) == (
        "me",
        "abc",
        Positions(commands=1, clock=5),
    )
    assert (find_state(reopened_store, "a"), find_decision(reopened_store, "a", "1")) == (
        stored_state(),
        decision(5),
    )


def test_closed_store_names_its_folder(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.close()
    calls: list[Callable[[], object]] = [
        store.count,
        lambda: list(store.items()),
        lambda: find_state(store, "a"),
        lambda: store.page("", "", 1),
        lambda: store.snapshot().__enter__(),
        lambda: store.copy(tmp_path),
        store.sync,
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=f"the state folder {tmp_path}/0 cannot be used"):
            call()


def test_abandoned_store_needs_no_closing(open_store: OpenStore) -> None:
    store = open_store()
    store.close_without_sync()
    store.close()


def test_database_names_are_stable(open_store: OpenStore, tmp_path: Path) -> None:
    """Shards of other releases are read with these names."""
    store = open_store()
    store.set_identity(b"x")
    store.close()
    with lmdb.open(str(tmp_path / "0"), max_dbs=5, readonly=True) as env, env.begin() as txn:
        assert [name for name, _ in txn.cursor()] == [b"deferred", b"ids.0", b"ids.1", b"meta", b"states"]
        meta = env.open_db(b"meta", txn, create=False)
        assert txn.get(b"identity", db=meta) == b"x"


def test_files_are_private(open_store: OpenStore, tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        open_store()
    finally:
        os.umask(umask)
    assert (tmp_path / "0" / "data.mdb").stat().st_mode & 0o777 == 0o600


def test_thousand_readers_are_allowed(tmp_path: Path) -> None:
    with environment.open_environment(tmp_path, environment.MAP_SIZE, readonly=False) as env:
        assert env.max_readers() == 1000


def test_wait_for_the_lock_is_measured(open_store: OpenStore) -> None:
    store = open_store()
    writer = threading.Thread(target=write, args=(store,), kwargs={"states": {"a": stored_state()}})
    with store._env.begin(write=True):
        assert store.seconds_waiting_for_lock == 0.0
        writer.start()
        eventually(lambda: store.seconds_waiting_for_lock > 0.0)
        assert writer.is_alive()
    writer.join(30)
    assert (store.seconds_waiting_for_lock, find_state(store, "a")) == (0.0, stored_state())


def test_pages_follow_the_order_of_ids(open_store: OpenStore) -> None:
    store = open_store()
    write(store, states={name: stored_state() for name in ("a1", "a2", "b1", "é", "x" * 600)})
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
        assert store.page(prefix, after, limit) == [(name, stored_state()) for name in names], (
            prefix,
            after,
            limit,
        )


def test_change_survives_growing_map(open_store: OpenStore) -> None:
    store = open_store(map_size=256 << 10)
    states = {f"{n:06}": stored_state(1, b"x" * 1000) for n in range(5_000)}
    write(store, states=states, dedup_entries={("a", str(n)): decision(offset=n) for n in range(5_000)})
    assert dict(store.items()) == states
    assert find_decision(store, "a", "4999") == decision(offset=4999)
    assert store.positions().commands == 1


def test_grown_map_opens_for_reading(open_store: OpenStore) -> None:
    store = open_store(map_size=256 << 10)
    for n in range(20):
        write(store, states={f"{n}/{m}": stored_state(n + 1, b"x" * 500) for m in range(500)})
        assert find_state(store, f"{n}/499") == stored_state(n + 1, b"x" * 500)


def test_dropped_segments_free_their_space(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    for n in range(12):
        ids = {("a", f"{n}/{m}"): decision(n * WINDOW) for m in range(3_000)}
        write(store, clock=n * WINDOW, dedup_entries=ids)
        if n == 4:
            size_before = (tmp_path / "0" / "data.mdb").stat().st_size
    assert (tmp_path / "0" / "data.mdb").stat().st_size < 1.2 * size_before


def test_full_disk_changes_nothing(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    write(store, states={"a": stored_state(1)})
    with (
        limit_file_size(1 << 20),
        pytest.raises(ConfigurationError, match=f"disk is full .* in {tmp_path}/0 ") as raised,
    ):
        write(store, states={str(n): stored_state(2, b"x" * 1000) for n in range(5_000)})
    assert raised.value.exit_code == 3
    assert dict(store.items()) == {"a": stored_state(1)}
    write(store, states={"a": stored_state(2)})


@pytest.mark.parametrize("length", [0, 100, 4096, 5000, 8192, 20_000, -1])
def test_truncated_file_is_not_touched(open_store: OpenStore, tmp_path: Path, length: int) -> None:
    store = open_store()
    write(store, states={str(n): stored_state(1, b"x" * 500) for n in range(500)})
    store.close()
    with (tmp_path / "0" / "data.mdb").open("r+b") as file:
        file.truncate(length if length >= 0 else file.seek(length, os.SEEK_END))
    if length:
        with pytest.raises(CorruptError) as raised:
            open_store()
        assert raised.value.hint == REBUILD_HINT and str(tmp_path / "0") in str(raised.value)
    else:
        assert open_store().identity() == b""


def test_digest_collision_is_an_error(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "shorten", lambda key: b"\xffsame")
    store = open_store()
    write(store, states={"a" * 600: stored_state()}, dedup_entries={("a" * 600, "1"): decision()})
    assert (find_state(store, "a" * 600), find_decision(store, "a" * 600, "1")) == (
        stored_state(),
        decision(),
    )
    with pytest.raises(ContradictionError):
        find_state(store, "b" * 600)
    with pytest.raises(ContradictionError):
        find_decision(store, "b" * 600, "1")


def test_folder_opens_once_per_process(open_store: OpenStore) -> None:
    open_store()
    with pytest.raises(ConfigurationError, match="already open in this process"):
        open_store()


def test_growing_map_still_checks_owner(open_store: OpenStore) -> None:
    store = open_store(map_size=256 << 10)
    with pytest.raises(NotOwnerError, match=r"the shard is at \(.* ''\), not \(.* 'other'\)$"):
        store.apply(
            WriteBatch(
                "other",
                Positions(),
                positions_at(0, 1),
                {str(n): stored_state(1, b"x" * 999) for n in range(999)},
            )
        )
    assert store.count() == 0
