"""Decoded states are kept while they fit in memory."""

from hypothesis import given
from hypothesis import strategies as st

from aggregates.counter import Counter
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.state.decoded_states import DecodedStates


def versioned_state(version: int) -> VersionedState:
    return VersionedState(version, Counter(version), version, 0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5000)), min_size=1), st.integers(0, 60_000))
def test_cached_states_fit_in_the_budget(states_and_sizes: list[tuple[int, int]], budget: int) -> None:
    """The kept states fit in the budget, or only the newest is kept. Each has its latest value."""
    states, sizes = DecodedStates(budget, capacity=20), dict[str, int]()
    last: dict[str, VersionedState] = {}
    for version, (number, encoded) in enumerate(states_and_sizes):
        id = str(number)
        last[id] = versioned_state(version)
        sizes[id] = states.put_all({id: last[id]}, [encoded])
        present = {id: folded for id in sizes if (folded := states.get(id)) is not None}
        assert present[id] == last[id] and present.items() <= last.items()
        assert len(present) <= 20
        assert sum(sizes[id] for id in present) <= budget or list(present) == [id]


def test_oldest_states_are_dropped_first() -> None:
    states = DecodedStates(float("inf"), capacity=10)
    for version in range(11):
        states.put_all({str(version): versioned_state(version)}, [10])
    assert [states.get(str(version)) is not None for version in range(11)] == [False] * 2 + [True] * 9


def test_larger_states_count_for_more() -> None:
    small, large = DecodedStates(100_000), DecodedStates(100_000)
    for version in range(100):
        small.put_all({str(version): versioned_state(version)}, [20])
        large.put_all({str(version): versioned_state(version)}, [2000])
    assert small.get("0") is not None
    assert sum(large.get(str(version)) is not None for version in range(100)) <= 6


def test_replaced_state_counts_once() -> None:
    states = DecodedStates(10_000)
    states.put_all({"a": versioned_state(0)}, [20])
    for version in range(1000):
        states.put_all({"b": versioned_state(version)}, [20])
    assert states.get("a") is not None and states.get("b") == versioned_state(999)


def test_budget_is_used_exactly() -> None:
    states, versions = DecodedStates(5 * DecodedStates(0).put_all({"x": versioned_state(0)}, [20])), range(5)
    for version in versions:
        states.put_all({str(version): versioned_state(version)}, [20])
    assert all(states.get(str(version)) is not None for version in versions)
    states.put_all({"one more": versioned_state(9)}, [20])
    assert [states.get(str(version)) is not None for version in versions] == [False, False, True, True, True]


def test_capacity_is_used_exactly() -> None:
    states = DecodedStates(float("inf"), capacity=5)
    for version in range(5):
        states.put_all({str(version): versioned_state(version)}, [20])
    assert all(states.get(str(version)) is not None for version in range(5))


def test_replaced_state_still_fits() -> None:
    size = DecodedStates(0).put_all({"x": versioned_state(0)}, [20])
    states = DecodedStates(5 * size, capacity=5)
    for version in (*range(5), 4):
        states.put_all({str(version): versioned_state(version)}, [20])
    assert all(states.get(str(version)) is not None for version in range(5))


def test_states_of_one_batch_fit() -> None:
    """The newest states stay."""
    states = DecodedStates(float("inf"), capacity=10)
    states.put_all({str(version): versioned_state(version) for version in range(30)}, [20] * 30)
    assert [states.get(str(version)) is not None for version in range(30)] == [False] * 21 + [True] * 9
