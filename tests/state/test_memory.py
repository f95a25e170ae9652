"""The store in memory keeps the contract of every store, and its limit of memory."""

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.state.memory import MemoryBudget, MemoryStore
from cqrs_cli.state.store import Positions, Store
from tests.state.contract import StoreContract
from tests.state.values import WINDOW, decision, stored_state, write


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore(WINDOW)


def test_full_store_refuses_the_change() -> None:
    budget = MemoryBudget(10_000)
    full_store, other_store = MemoryStore(WINDOW, budget), MemoryStore(WINDOW, budget)
    write(full_store, states={"a": stored_state(1, b"x" * 6_000)})
    with pytest.raises(ConfigurationError, match="need more than store_limit") as raised:
        write(other_store, states={"b": stored_state(1, b"x" * 6_000)})
    assert raised.value.hint and 'store = "lmdb"' in raised.value.hint
    assert (other_store.count(), other_store.positions(), budget.used) == (0, Positions(), full_store.size)
    write(full_store, states={"a": stored_state(2, b"x")})
    write(other_store, states={"b": stored_state(1, b"x" * 6_000)})


def test_limit_may_be_reached() -> None:
    budget = MemoryBudget(5 << 20)
    budget.reserve(5 << 20)
    with pytest.raises(ConfigurationError, match="need more than store_limit, 5 MiB"):
        budget.reserve(1)
    assert budget.used == 5 << 20


def test_forgotten_ids_make_room() -> None:
    budget = MemoryBudget(10_000)
    store = MemoryStore(WINDOW, budget)
    for round in range(50):
        ids = {("a", f"{round}-{number}"): decision(round * WINDOW) for number in range(15)}
        write(store, clock=round * WINDOW, dedup_entries=ids)
    store.close()
    assert budget.used == 0


def test_size_is_that_of_the_objects() -> None:
    store = MemoryStore(WINDOW)
    write(store, states={"a": stored_state(1, b"x" * 100_000)})
    size_before = store.size
    write(store, states={"a": stored_state(2, b"x" * 50_000)})
    assert (round(size_before, -3), round(store.size, -3)) == (100_000, 50_000)


def test_size_counts_the_keys() -> None:
    store = MemoryStore(WINDOW)
    write(store, states={f"{number:0500}": stored_state() for number in range(100)})
    assert 50_000 < store.size < 100_000
