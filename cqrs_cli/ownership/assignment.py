"""Assignment of partitions to a run's tasks, and rebalancing of task slots, for `jobs.engine.task_group`."""

from collections.abc import Sequence

#: The indexes of the partitions that a task owns: (0, 2, 4).
Share = tuple[int, ...]


def dealt(places: int, tasks: int) -> list[Share]:
    """Return an assignment for each task; sizes differ by one at most. `dealt(5, 2)` is `[(0, 2, 4), (1, 3)]`."""
    return [tuple(range(task, places, tasks)) for task in range(tasks)]


def moved(shares: Sequence[Share], more: int, leaving: Sequence[Share] = ()) -> list[Share]:
    """Return the assignments of up to `more` additional tasks, without empty ones.

    The additional tasks get all partitions of the tasks that are `leaving`. From the largest of the other `shares` they
    get as few partitions as make all sizes even. A partition that need not move keeps its task, and a task that stays
    keeps at least one partition.
    """
    left = [list(share) for share in shares]
    further: list[list[int]] = [[] for _ in range(more)]
    if further:
        for place in (place for share in leaving for place in share):
            min(further, key=len).append(place)
    while further and left:
        giver, taker = max(left, key=len), min(further, key=len)
        if len(giver) - len(taker) < 2:
            break
        taker.append(giver.pop())
    return [tuple(share) for share in further if share]
