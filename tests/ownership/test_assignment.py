"""The assignment of partitions to tasks."""

from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.ownership.assignment import assign_partitions, rebalance

numbers = st.integers(1, 40)


@given(numbers, numbers)
def test_partitions_are_assigned_evenly(partitions: int, tasks: int) -> None:
    tasks = min(partitions, tasks)
    shares = assign_partitions(partitions, tasks)
    assert sorted(partition for share in shares for partition in share) == list(range(partitions))
    sizes = {len(share) for share in shares}
    assert max(sizes) - min(sizes) <= 1


@given(numbers, numbers, st.integers(0, 40))
def test_rebalance_moves_few_partitions(partitions: int, tasks: int, new_tasks: int) -> None:
    old_shares = assign_partitions(partitions, min(partitions, tasks))
    new_shares = rebalance(old_shares, new_tasks)
    moved_partitions = {partition for share in new_shares for partition in share}
    shares = [
        *([partition for partition in share if partition not in moved_partitions] for share in old_shares),
        *new_shares,
    ]
    assert sorted(partition for share in shares for partition in share) == list(range(partitions))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert len(shares) == min(partitions, len(old_shares) + new_tasks)
    fair_size = partitions // len(shares)
    assert len(moved_partitions) <= sum(max(0, len(share) - fair_size) for share in old_shares)


@given(numbers, numbers, st.data())
def test_partitions_of_leaving_tasks_are_reassigned(partitions: int, tasks: int, data: st.DataObject) -> None:
    """New tasks get all these partitions, as evenly as possible. The staying tasks give up no more than before."""
    old_shares = assign_partitions(partitions, min(partitions, tasks))
    leaving_shares = old_shares[: data.draw(st.integers(1, len(old_shares)))]
    staying_shares, new_tasks = old_shares[len(leaving_shares) :], data.draw(st.integers(1, 40))
    new_shares = rebalance(staying_shares, new_tasks, leaving_shares)
    moved_partitions = {partition for share in new_shares for partition in share}
    kept_shares = [
        [partition for partition in share if partition not in moved_partitions] for share in staying_shares
    ]
    assert all(kept_shares)
    assert sorted(partition for share in (*kept_shares, *new_shares) for partition in share) == list(
        range(partitions)
    )
    sizes = [len(share) for share in new_shares]
    assert max(sizes) - min(sizes) <= 1
    assert max(map(len, kept_shares), default=0) - min(sizes) <= 1
    assert moved_partitions == {partition for share in leaving_shares for partition in share} or max(
        sizes
    ) <= min(map(len, staying_shares))


def test_rebalance_without_new_tasks_moves_nothing() -> None:
    assert rebalance([(0,)], 0, [(1,)]) == []
