"""What waits above the shard, and when it comes to rest."""

import pytest

from aggregates.counter import Counter, decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.stored import DedupEntry, StoredState
from cqrs_cli.errors import ContradictionError
from cqrs_cli.owner.state_cache import StateCache, pack, unpack
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


def counted(version: int) -> Folded:
    return Folded(version, Counter(version), version * 10, 0)


def decided(version: int, clock: int = 5) -> Decisions:
    """The decisions that left counter `a` at `version`."""
    return Decisions(clock, states={"a": counted(version)}, remembered={("a", f"c{version}"): FIRST})


def round_trip(store: MemoryStore) -> dict[str, int]:
    return {id: saved.version for id, saved in store.items()}


def test_what_waits_is_known_but_does_not_rest(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decided(1), 11, 3, 4)
    with cache.reading():
        assert cache.state("a") == counted(1)
        assert cache.remembered("a", "c1") == FIRST
    assert cache.pending == 1
    assert (round_trip(store), store.positions()) == ({}, Positions())


def test_settling_applies_all_that_waits_in_one_change(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decided(1), 11, 3, 4)
    cache.stage(decided(2, clock=9), 12, 6, 7)
    cache.flush()
    assert (cache.pending, round_trip(store)) == (0, {"a": 2})
    assert store.positions() == Positions(12, 6, 7, 9)


def test_a_topic_that_got_nothing_keeps_its_position(cache: StateCache, store: MemoryStore) -> None:
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


def test_what_was_settled_before_is_replaced_by_what_waits(cache: StateCache) -> None:
    cache.stage(decided(1), 11, 3, 4)
    cache.flush()
    cache.stage(decided(2), 12, 4, 5)
    with cache.reading():
        assert cache.state("a") == counted(2)
    cache.flush()
    with cache.reading():
        assert cache.state("a") == counted(2)


def test_nothing_is_applied_once_somebody_else_owns_the_shard(cache: StateCache, store: MemoryStore) -> None:
    cache.stage(decided(1), 11, 3, 4)
    store.take_ownership("other", "me")
    with pytest.raises(NotOwnerError):
        cache.flush()
    assert round_trip(store) == {}


def test_two_caches_of_one_owner_do_not_overwrite_each_other(cache: StateCache, store: MemoryStore) -> None:
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


def test_a_state_that_was_forgotten_above_is_read_from_below(store: MemoryStore) -> None:
    store.take_ownership("me", "")
    cache = StateCache(COUNTER, store, "me", capacity=10)
    cache.fold(Positions(events=1), {f"n{n}": counted(n + 1) for n in range(50)})
    with cache.reading():
        assert [cache.state(f"n{n}") for n in range(50)] == [counted(n + 1) for n in range(50)]


def test_packing_and_unpacking_keeps_everything() -> None:
    assert unpack(COUNTER, "a", pack(COUNTER, counted(3))) == counted(3)


def test_a_state_that_the_code_cannot_read_back_is_a_contradiction() -> None:
    with pytest.raises(ContradictionError, match="counter 'a' cannot be read back"):
        unpack(COUNTER, "a", StoredState(1, 0, 0, b'{"value":"many"}'))
