"""What waits above the shard, and when it comes to rest."""

import pytest

from aggregates.counter import Counter, decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.stored import DedupEntry, StoredState
from cqrs_cli.errors import ContradictionError
from cqrs_cli.owner import state_cache as module
from cqrs_cli.owner.state_cache import StateCache, pack, unpack
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import NotOwnerError, Positions

COUNTER = Aggregate.of("counter", decider)
FIRST = DedupEntry(5, 0, "accepted", 1, 1, 7)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(1000)


@pytest.fixture
def ledger(store: MemoryStore) -> StateCache:
    store.take("me", "")
    return StateCache(COUNTER, store, "me")


def counted(version: int) -> Folded:
    return Folded(version, Counter(version), version * 10, 0)


def decided(version: int, clock: int = 5) -> Decisions:
    """The decisions that left counter `a` at `version`."""
    return Decisions(clock, states={"a": counted(version)}, remembered={("a", f"c{version}"): FIRST})


def round_trip(store: MemoryStore) -> dict[str, int]:
    return {id: saved.version for id, saved in store.items()}


def test_what_waits_is_known_but_does_not_rest(ledger: StateCache, store: MemoryStore) -> None:
    ledger.absorb(decided(1), 11, 3, 4)
    with ledger.looking():
        assert ledger.state("a") == counted(1)
        assert ledger.remembered("a", "c1") == FIRST
    assert ledger.pending == 1
    assert (round_trip(store), store.positions()) == ({}, Positions())


def test_settling_applies_all_that_waits_in_one_change(ledger: StateCache, store: MemoryStore) -> None:
    ledger.absorb(decided(1), 11, 3, 4)
    ledger.absorb(decided(2, clock=9), 12, 6, 7)
    ledger.settle()
    assert (ledger.pending, round_trip(store)) == (0, {"a": 2})
    assert store.positions() == Positions(12, 6, 7, 9)


def test_a_topic_that_got_nothing_keeps_its_position(ledger: StateCache, store: MemoryStore) -> None:
    ledger.absorb(decided(1), 11, 3, 4)
    ledger.absorb(Decisions(9), 12, None, 5)
    ledger.settle()
    assert store.positions() == Positions(12, 3, 5, 9)


def test_after_settling_the_same_is_known(ledger: StateCache) -> None:
    ledger.absorb(decided(1), 11, 3, 4)
    ledger.settle()
    with ledger.looking():
        assert ledger.state("a") == counted(1)
        assert ledger.remembered("a", "c1") == FIRST
        assert ledger.state("b") is None and ledger.remembered("b", "c1") is None


def test_what_was_settled_before_is_replaced_by_what_waits(ledger: StateCache) -> None:
    ledger.absorb(decided(1), 11, 3, 4)
    ledger.settle()
    ledger.absorb(decided(2), 12, 4, 5)
    with ledger.looking():
        assert ledger.state("a") == counted(2)
    ledger.settle()
    with ledger.looking():
        assert ledger.state("a") == counted(2)


def test_nothing_is_applied_once_somebody_else_owns_the_shard(ledger: StateCache, store: MemoryStore) -> None:
    ledger.absorb(decided(1), 11, 3, 4)
    store.take("other", "me")
    with pytest.raises(NotOwnerError):
        ledger.settle()
    assert round_trip(store) == {}


def test_two_ledgers_of_one_owner_do_not_overwrite_each_other(ledger: StateCache, store: MemoryStore) -> None:
    older = StateCache(COUNTER, store, "me")
    ledger.absorb(decided(2), 12, 4, 5)
    ledger.settle()
    older.absorb(decided(1), 11, 3, 4)
    with pytest.raises(NotOwnerError):
        older.settle()
    assert round_trip(store) == {"a": 2}


def test_folding_comes_to_rest_at_once(ledger: StateCache, store: MemoryStore) -> None:
    ledger.fold(Positions(0, 4, 0, 0), {"a": counted(3)})
    assert (round_trip(store), ledger.positions) == ({"a": 3}, store.positions())


def test_a_state_that_was_forgotten_above_is_read_from_below(
    ledger: StateCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHED_STATES", 10)
    ledger.fold(Positions(events=1), {f"n{n}": counted(n + 1) for n in range(50)})
    with ledger.looking():
        assert [ledger.state(f"n{n}") for n in range(50)] == [counted(n + 1) for n in range(50)]


def test_packing_and_unpacking_keeps_everything() -> None:
    assert unpack(COUNTER, "a", pack(COUNTER, counted(3))) == counted(3)


def test_a_state_that_the_code_cannot_read_back_is_a_contradiction() -> None:
    with pytest.raises(ContradictionError, match="counter 'a' cannot be read back"):
        unpack(COUNTER, "a", StoredState(1, 0, 0, b'{"value":"many"}'))
