"""Decoded states are kept while they fit in memory."""

from hypothesis import given
from hypothesis import strategies as st

from aggregates.counter import Counter
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.state.decoded_states import DecodedStates


def counted(version: int) -> VersionedState:
    return VersionedState(version, Counter(version), version, 0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5000)), min_size=1), st.integers(0, 60_000))
def test_what_it_keeps_fits(kept: list[tuple[int, int]], budget: int) -> None:
    """The kept states fit in the budget, or only the newest is kept. Each has its latest value."""
    states, sizes = DecodedStates(budget, capacity=20), dict[str, int]()
    last: dict[str, VersionedState] = {}
    for version, (number, encoded) in enumerate(kept):
        id = str(number)
        last[id] = counted(version)
        sizes[id] = states.put_all({id: last[id]}, [encoded])
        found = {id: folded for id in sizes if (folded := states.get(id)) is not None}
        assert found[id] == last[id] and found.items() <= last.items()
        assert len(found) <= 20
        assert sum(sizes[id] for id in found) <= budget or list(found) == [id]


def test_the_oldest_go_first() -> None:
    states = DecodedStates(float("inf"), capacity=10)
    for version in range(11):
        states.put_all({str(version): counted(version)}, [10])
    assert [states.get(str(version)) is not None for version in range(11)] == [False] * 2 + [True] * 9


def test_larger_states_count_for_more() -> None:
    small, large = DecodedStates(100_000), DecodedStates(100_000)
    for version in range(100):
        small.put_all({str(version): counted(version)}, [20])
        large.put_all({str(version): counted(version)}, [2000])
    assert small.get("0") is not None
    assert sum(large.get(str(version)) is not None for version in range(100)) <= 6


def test_a_state_kept_again_counts_once() -> None:
    states = DecodedStates(10_000)
    states.put_all({"a": counted(0)}, [20])
    for version in range(1000):
        states.put_all({"b": counted(version)}, [20])
    assert states.get("a") is not None and states.get("b") == counted(999)


def test_exactly_what_fits_is_kept() -> None:
    states, probe = DecodedStates(5 * DecodedStates(0).put_all({"x": counted(0)}, [20])), range(5)
    for version in probe:
        states.put_all({str(version): counted(version)}, [20])
    assert all(states.get(str(version)) is not None for version in probe)
    states.put_all({"one more": counted(9)}, [20])
    assert [states.get(str(version)) is not None for version in probe] == [False, False, True, True, True]


def test_exactly_as_many_are_kept() -> None:
    states = DecodedStates(float("inf"), capacity=5)
    for version in range(5):
        states.put_all({str(version): counted(version)}, [20])
    assert all(states.get(str(version)) is not None for version in range(5))


def test_what_is_kept_again_still_fits() -> None:
    one = DecodedStates(0).put_all({"x": counted(0)}, [20])
    states = DecodedStates(5 * one, capacity=5)
    for version in (*range(5), 4):
        states.put_all({str(version): counted(version)}, [20])
    assert all(states.get(str(version)) is not None for version in range(5))


def test_those_kept_at_once_fit() -> None:
    """The newest states stay."""
    states = DecodedStates(float("inf"), capacity=10)
    states.put_all({str(version): counted(version) for version in range(30)}, [20] * 30)
    assert [states.get(str(version)) is not None for version in range(30)] == [False] * 21 + [True] * 9
