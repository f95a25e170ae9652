"""The assignment of partitions to tasks."""

from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.ownership.assignment import assign_partitions, rebalance

numbers = st.integers(1, 40)


@given(numbers, numbers)
def test_all_are_dealt_evenly(places: int, tasks: int) -> None:
    tasks = min(places, tasks)
    shares = assign_partitions(places, tasks)
    assert sorted(place for share in shares for place in share) == list(range(places))
    sizes = {len(share) for share in shares}
    assert max(sizes) - min(sizes) <= 1


@given(numbers, numbers, st.integers(0, 40))
def test_as_few_move_as_make_all_even(places: int, tasks: int, more: int) -> None:
    before = assign_partitions(places, min(places, tasks))
    further = rebalance(before, more)
    gone = {place for share in further for place in share}
    after = [*([place for place in share if place not in gone] for share in before), *further]
    assert sorted(place for share in after for place in share) == list(range(places))
    sizes = [len(share) for share in after]
    assert max(sizes) - min(sizes) <= 1
    assert len(after) == min(places, len(before) + more)
    fair = places // len(after)
    assert len(gone) <= sum(max(0, len(share) - fair) for share in before)


@given(numbers, numbers, st.data())
def test_all_that_leaves_is_taken(places: int, tasks: int, data: st.DataObject) -> None:
    """Further tasks get all of them, as evenly as possible. The other tasks give up no more than before."""
    before = assign_partitions(places, min(places, tasks))
    leaving = before[: data.draw(st.integers(1, len(before)))]
    staying, more = before[len(leaving) :], data.draw(st.integers(1, 40))
    further = rebalance(staying, more, leaving)
    gone = {place for share in further for place in share}
    kept = [[place for place in share if place not in gone] for share in staying]
    assert all(kept)
    assert sorted(place for share in (*kept, *further) for place in share) == list(range(places))
    sizes = [len(share) for share in further]
    assert max(sizes) - min(sizes) <= 1
    assert max(map(len, kept), default=0) - min(sizes) <= 1
    assert gone == {place for share in leaving for place in share} or max(sizes) <= min(map(len, staying))


def test_without_slots_nothing_leaves() -> None:
    assert rebalance([(0,)], 0, [(1,)]) == []
