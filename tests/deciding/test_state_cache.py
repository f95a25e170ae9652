"""Decisions are kept in memory until they are flushed into the shard."""

import pytest

from aggregates.counter import Counter, decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.stored import DedupEntry, StoredState
from cqrs_cli.deciding.packing import pack, unpack
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import NotOwnerError, Positions

COUNTER = Aggregate.of("counter", decider)
FIRST = DedupEntry(5, 0, "accepted", 1, 1, 7)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(1000)


@pytest.fixture
def cache(store: MemoryStore) -> StateCache:
    store.take_ownership("me", "")
    return StateCache(COUNTER, store, "me")


def counted(version: int) -> VersionedState:
    return VersionedState(version, Counter(version), version * 10, 0)


def decided(version: int, clock: int = 5) -> Decisions:
    """Return the decisions after which counter `a` is at `version`."""
    return Decisions(clock, states={"a": counted(version)}, dedup_entries={("a", f"c{version}"): FIRST})


def round_trip(store: MemoryStore) -> dict[str, int]:
    return {id: saved.version for id, saved in store.items()}


def test_staged_decisions_are_known_not_stored(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decided(1), 11, 3, 4)
    with cache.reading():
        assert cache.state("a") == counted(1)
        assert cache.remembered("a", "c1") == FIRST
    assert cache.pending == 1
    assert (round_trip(store), store.positions()) == ({}, Positions())


def test_flush_applies_everything_at_once(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decided(1), 11, 3, 4)
    cache.stage(decided(2, clock=9), 12, 6, 7)
    cache.flush()
    assert (cache.pending, round_trip(store)) == (0, {"a": 2})
    assert store.positions() == Positions(12, 6, 7, 9)


def test_unwritten_topic_keeps_its_position(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decided(1), 11, 3, 4)
    cache.stage(Decisions(9), 12, None, 5)
    cache.flush()
    assert store.positions() == Positions(12, 3, 5, 9)


def test_after_settling_the_same_is_known(cache: StateCache) -> None:
    cache.stage(decided(1), 11, 3, 4)
    cache.flush()
    with cache.reading():
        assert cache.state("a") == counted(1)
        assert cache.remembered("a", "c1") == FIRST
        assert cache.state("b") is None and cache.remembered("b", "c1") is None


def test_staged_state_replaces_flushed_one(cache: StateCache) -> None:
    cache.stage(decided(1), 11, 3, 4)
    cache.flush()
    cache.stage(decided(2), 12, 4, 5)
    with cache.reading():
        assert cache.state("a") == counted(2)
    cache.flush()
    with cache.reading():
        assert cache.state("a") == counted(2)


def test_foreign_owner_blocks_the_flush(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decided(1), 11, 3, 4)
    store.take_ownership("other", "me")
    with pytest.raises(NotOwnerError):
        cache.flush()
    assert round_trip(store) == {}


def test_second_cache_cannot_overwrite(cache: StateCache, store: MemoryStore) -> None:
    older = StateCache(COUNTER, store, "me")
    cache.stage(decided(2), 12, 4, 5)
    cache.flush()
    older.stage(decided(1), 11, 3, 4)
    with pytest.raises(NotOwnerError):
        older.flush()
    assert round_trip(store) == {"a": 2}


def test_folding_comes_to_rest_at_once(cache: StateCache, store: MemoryStore) -> None:
    cache.fold(Positions(0, 4, 0, 0), {"a": counted(3)})
    assert (round_trip(store), cache.positions) == ({"a": 3}, store.positions())


def test_forgotten_state_is_read_from_shard(store: MemoryStore) -> None:
    store.take_ownership("me", "")
    cache = StateCache(COUNTER, store, "me", budget=10_000)
    cache.fold(Positions(events=1), {f"n{n}": counted(n + 1) for n in range(50)})
    with cache.reading():
        assert [cache.state(f"n{n}") for n in range(50)] == [counted(n + 1) for n in range(50)]


def test_changes_fill_it_by_bytes(store: MemoryStore) -> None:
    """The number of waiting changes follows from the budget and from the size of the last applied states."""
    store.take_ownership("me", "")
    cache = StateCache(COUNTER, store, "me", budget=10_000)
    cache.fold(Positions(events=1), {"a": counted(1)})
    most = cache.max_waiting
    assert 5 < most < 10  # some 600 bytes each, in half the budget
    states = {f"n{n}": counted(n + 1) for n in range(most)}
    cache.stage(Decisions(5, states=states, dedup_entries={("a", "c"): FIRST}), 11, 3, 4)
    assert cache.is_full()
    cache.flush()
    assert not cache.is_full()


def test_packing_and_unpacking_keeps_everything() -> None:
    assert unpack(COUNTER, "a", pack(COUNTER, "a", counted(3))) == counted(3)


def test_unreadable_state_is_a_contradiction() -> None:
    with pytest.raises(ContradictionError, match="counter 'a' cannot be read back"):
        unpack(COUNTER, "a", StoredState(1, 0, 0, b'{"value":"many"}'))
