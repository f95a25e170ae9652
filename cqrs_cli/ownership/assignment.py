"""Assignment of partitions to a run's tasks, and rebalancing of task slots, for `jobs.engine.task_group`."""

from collections.abc import Sequence

#: The indexes of the partitions that a task owns: (0, 2, 4).
Assignment = tuple[int, ...]


def assign_partitions(partitions: int, tasks: int) -> list[Assignment]:
    """Return an assignment for each task; their sizes differ by one at most.

    Sample: `assign_partitions(5, 2)` is `[(0, 2, 4), (1, 3)]`.
    """
    return [tuple(range(task, partitions, tasks)) for task in range(tasks)]


def rebalance(
    assignments: Sequence[Assignment], added_tasks: int, removed: Sequence[Assignment] = ()
) -> list[Assignment]:
    """Return the assignments of up to `added_tasks` additional tasks, without empty assignments.

    The additional tasks get all partitions of the `removed` assignments. They also take partitions from the largest of
    the present `assignments`, until it has at most one partition more than the smallest additional assignment. No other
    partition moves, and a present task keeps at least one partition.
    """
    remaining = [list(assignment) for assignment in assignments]
    added: list[list[int]] = [[] for _ in range(added_tasks)]
    if added:
        for partition in (partition for assignment in removed for partition in assignment):
            min(added, key=len).append(partition)
    while added and remaining:
        largest, smallest = max(remaining, key=len), min(added, key=len)
        if len(largest) - len(smallest) < 2:
            break
        smallest.append(largest.pop())
    return [tuple(assignment) for assignment in added if assignment]
