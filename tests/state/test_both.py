"""The store in LMDB and the store in memory return the same after any changes."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cqrs_cli import failpoints
from cqrs_cli.core.stored import StateView
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.memory import MemoryBudget, MemoryStore
from cqrs_cli.state.store import NotOwnerError, Positions, Store, WriteBatch, split_by_segment
from tests.state.contract import SIMILAR_IDS, out_of_memory
from tests.state.values import WINDOW, decision, positions_at, stored_state

NAMES = ["a", "b", "ab", "é" * 300, "é" * 300 + "b", "x" * 511, "x" * 512]
names = st.sampled_from(NAMES)
tokens = st.sampled_from(["", "one", "two"])
# mostly within the kept segments, sometimes far away
clock_steps = st.sampled_from([0, 0, 1, WINDOW // 3, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 5 * WINDOW])
ids_and_ages = st.dictionaries(st.sampled_from(SIMILAR_IDS), clock_steps, max_size=6)


class BothStores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.lmdb = LmdbStore(self.folder, WINDOW, map_size=256 << 10)
        self.budget = MemoryBudget()
        self.memory = MemoryStore(WINDOW, self.budget)
        self.offset = 0

    def teardown(self) -> None:
        self.lmdb.close()
        shutil.rmtree(self.folder)

    def apply_to_both(self, change: WriteBatch) -> None:
        assert _apply_error(self.lmdb, change) == _apply_error(self.memory, change)

    @rule(
        states=st.dictionaries(names, st.integers(0, 3000), max_size=4),
        ids=ids_and_ages,
        clock_step=clock_steps,
        fails=st.booleans(),
        has_views=st.booleans(),
    )
    def apply(
        self,
        states: dict[str, int],
        ids: dict[tuple[str, str], int],
        clock_step: int,
        fails: bool,
        has_views: bool,
    ) -> None:
        start = self.memory.positions()
        self.offset += 1
        end = Positions(self.offset, self.offset, self.offset, start.clock + clock_step)
        stored_states = {name: stored_state(self.offset, b"s" * size) for name, size in states.items()}
        dedup_entries = {pair: decision(end.clock - age, self.offset) for pair, age in ids.items()}
        change = WriteBatch(self.memory.token(), start, end, stored_states, dedup_entries)
        with ExitStack() as stack:
            if fails:
                stack.enter_context(failpoints.call_at("apply.inside", out_of_memory, times=2))
            if has_views:
                stack.enter_context(self.compare_all_reads())
            self.apply_to_both(change)

    @contextmanager
    def compare_all_reads(self) -> Iterator[None]:
        """Views that are open during a change do not show the change."""
        with self.lmdb.view() as lmdb_view, self.memory.view() as memory_view:
            contents = _view_contents(lmdb_view)
            assert _view_contents(memory_view) == contents
            yield
            assert _view_contents(lmdb_view) == _view_contents(memory_view) == contents

    @rule(token=tokens, clock=st.integers(-5, 5), late=st.integers(0, 2 * WINDOW), commands=st.integers(0, 1))
    def apply_with_wrong_token_or_start(self, token: str, clock: int, late: int, commands: int) -> None:
        start = self.memory.positions()
        end = start._replace(clock=start.clock + clock)
        dedup_entries = {("a", "1"): decision(end.clock + late, self.offset)}
        start_of_change = start._replace(commands=start.commands + commands)
        self.apply_to_both(WriteBatch(token, start_of_change, end, {"a": stored_state(1)}, dedup_entries))

    @rule(token=tokens, expected=tokens)
    def take_ownership(self, token: str, expected: str) -> None:
        assert _takes_ownership(self.lmdb, token, expected) == _takes_ownership(self.memory, token, expected)

    @rule()
    def open_again(self) -> None:
        self.lmdb.close()
        self.lmdb = LmdbStore(self.folder, WINDOW, map_size=256 << 10)

    @invariant()
    def memory_is_counted_exactly(self) -> None:
        assert self.memory.size == self.budget.used

    @invariant()
    def stores_are_equal(self) -> None:
        assert _store_contents(self.lmdb) == _store_contents(self.memory)


def _apply_error(store: Store, change: WriteBatch) -> type[Exception] | None:
    try:
        store.apply(change)
    except (NotOwnerError, ValueError, MemoryError) as error:
        return type(error)
    return None


def _takes_ownership(store: Store, token: str, expected: str) -> bool:
    try:
        store.take_ownership(token, expected)
    except NotOwnerError:
        return False
    return True


def _view_contents(view: StateView) -> tuple[object, ...]:
    return [view.find_state(name) for name in NAMES], [view.find_dedup_entry(*pair) for pair in SIMILAR_IDS]


def _store_contents(store: Store) -> tuple[object, ...]:
    states = dict(store.items())
    with store.view() as view:
        looked_up = {name: view.find_state(name) for name in states}
        dedup_entries = [view.find_dedup_entry(*pair) for pair in SIMILAR_IDS]
    assert looked_up == states
    return states, store.count(), dedup_entries, store.positions(), store.token()


TestBothStores = BothStores.TestCase
TestBothStores.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_decisions_before_the_clock_have_another_segment() -> None:
    """The change contains only such decisions, or some of them."""
    old, new = {("a", "1"): decision(WINDOW - 1)}, {("a", "2"): decision(WINDOW)}
    for dedup_entries in (old, new, old | new):
        change = WriteBatch("", Positions(), positions_at(WINDOW), {}, dedup_entries)
        assert split_by_segment(change, WINDOW) == (
            {ids: entry for ids, entry in dedup_entries.items() if ids in new},
            {ids: entry for ids, entry in dedup_entries.items() if ids in old},
        )


def test_decision_after_the_clock_is_named() -> None:
    change = WriteBatch("", Positions(), positions_at(5), {}, {("a", "1"): decision(WINDOW + 5)})
    with pytest.raises(ValueError, match=f"^remembered at {WINDOW + 5}, after the clock 5$"):
        split_by_segment(change, WINDOW)
