"""Decisions are kept in memory until they are flushed into the shard."""

from contextlib import closing
from pathlib import Path

import pytest

from aggregates.counter import Counter, decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.stored import DedupEntry, StoredState
from cqrs_cli.deciding.packing import pack, unpack
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import NotOwnerError, Positions

COUNTER = Aggregate.of("counter", decider)
FIRST_ENTRY = DedupEntry(5, 0, "accepted", 1, 1, 7)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(1000)


@pytest.fixture
def cache(store: MemoryStore) -> StateCache:
    store.take_ownership("me", "")
    return StateCache(COUNTER, store, "me")


def state_at(version: int) -> VersionedState:
    return VersionedState(version, Counter(version), version * 10, 0)


def decisions_at(version: int, clock: int = 5) -> Decisions:
    """Return the decisions after which counter `a` is at `version`."""
    return Decisions(
        clock, states={"a": state_at(version)}, dedup_entries={("a", f"c{version}"): FIRST_ENTRY}
    )


def stored_versions(store: MemoryStore) -> dict[str, int]:
    return {id: stored.version for id, stored in store.items()}


def test_staged_decisions_are_known_not_stored(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decisions_at(1), 11, 3, 4)
    with cache.reading():
        assert cache.state("a") == state_at(1)
        assert cache.find_dedup_entry("a", "c1") == FIRST_ENTRY
    assert cache.pending_count == 1
    assert (stored_versions(store), store.positions()) == ({}, Positions())


def test_flush_applies_everything_at_once(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decisions_at(1), 11, 3, 4)
    cache.stage(decisions_at(2, clock=9), 12, 6, 7)
    cache.flush()
    assert (cache.pending_count, stored_versions(store)) == (0, {"a": 2})
    assert store.positions() == Positions(12, 6, 7, 9)


def test_unwritten_topic_keeps_its_position(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decisions_at(1), 11, 3, 4)
    cache.stage(Decisions(9), 12, None, 5)
    cache.flush()
    assert store.positions() == Positions(12, 3, 5, 9)


def test_staged_ids_stay_below_the_bound(tmp_path: Path) -> None:
    """Decisions that resubmit a command or re-wrap keys remember no id."""
    with closing(LmdbStore(tmp_path, 1000)) as store:
        store.take_ownership("me", "")
        cache = StateCache(COUNTER, store, "me")
        id = "01a20cd5-8d19-75b2-bc9c-7125363e3ff3"
        cache.stage(Decisions(5, dedup_entries={("a", id): FIRST_ENTRY}, greatest_id=id), 11, 3, 4)
        cache.stage(Decisions(5), 12, 3, 5)
        with cache.reading():
            assert cache.greatest_id() == id
        cache.flush()
        with cache.reading():
            assert cache.greatest_id() == id


def test_flushed_decisions_are_still_known(cache: StateCache) -> None:
    cache.stage(decisions_at(1), 11, 3, 4)
    cache.flush()
    with cache.reading():
        assert cache.state("a") == state_at(1)
        assert cache.find_dedup_entry("a", "c1") == FIRST_ENTRY
        assert cache.state("b") is None and cache.find_dedup_entry("b", "c1") is None


def test_staged_state_replaces_flushed_one(cache: StateCache) -> None:
    cache.stage(decisions_at(1), 11, 3, 4)
    cache.flush()
    cache.stage(decisions_at(2), 12, 4, 5)
    with cache.reading():
        assert cache.state("a") == state_at(2)
    cache.flush()
    with cache.reading():
        assert cache.state("a") == state_at(2)


def test_foreign_owner_blocks_the_flush(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decisions_at(1), 11, 3, 4)
    store.take_ownership("other", "me")
    with pytest.raises(NotOwnerError):
        cache.flush()
    assert stored_versions(store) == {}


def test_second_cache_cannot_overwrite(cache: StateCache, store: MemoryStore) -> None:
    older_cache = StateCache(COUNTER, store, "me")
    cache.stage(decisions_at(2), 12, 4, 5)
    cache.flush()
    older_cache.stage(decisions_at(1), 11, 3, 4)
    with pytest.raises(NotOwnerError):
        older_cache.flush()
    assert stored_versions(store) == {"a": 2}


def test_fold_is_written_at_once(cache: StateCache, store: MemoryStore) -> None:
    cache.fold(Positions(0, 4, 0, 0), {"a": state_at(3)})
    assert (stored_versions(store), cache.positions) == ({"a": 3}, store.positions())


def test_forgotten_state_is_read_from_shard(store: MemoryStore) -> None:
    store.take_ownership("me", "")
    cache = StateCache(COUNTER, store, "me", budget=10_000)
    cache.fold(Positions(events=1), {f"n{number}": state_at(number + 1) for number in range(50)})
    with cache.reading():
        assert [cache.state(f"n{number}") for number in range(50)] == [
            state_at(number + 1) for number in range(50)
        ]


def test_cache_is_full_by_bytes(store: MemoryStore) -> None:
    """The number of waiting changes follows from the budget and from the size of the last applied states."""
    store.take_ownership("me", "")
    cache = StateCache(COUNTER, store, "me", budget=10_000)
    cache.fold(Positions(events=1), {"a": state_at(1)})
    max_waiting_states = cache.max_waiting_states
    assert 5 < max_waiting_states < 10  # some 600 bytes each, in half the budget
    states = {f"n{number}": state_at(number + 1) for number in range(max_waiting_states)}
    cache.stage(Decisions(5, states=states, dedup_entries={("a", "c"): FIRST_ENTRY}), 11, 3, 4)
    assert cache.is_full()
    cache.flush()
    assert not cache.is_full()


def test_packing_and_unpacking_keeps_everything() -> None:
    assert unpack(COUNTER, "a", pack(COUNTER, "a", state_at(3))) == state_at(3)


def test_unreadable_state_is_a_contradiction() -> None:
    with pytest.raises(ContradictionError, match="counter 'a' cannot be read back"):
        unpack(COUNTER, "a", StoredState(1, 0, 0, b'{"value":"many"}'))
