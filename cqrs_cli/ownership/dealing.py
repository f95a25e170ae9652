"""The places that each task owns: dealt out evenly, and again when slots come or go."""

from collections.abc import Sequence

#: The numbers of the places that a task owns.
Share = tuple[int, ...]


def dealt(places: int, tasks: int) -> list[Share]:
    """A share for each task: they differ by one place at most."""
    return [tuple(range(task, places, tasks)) for task in range(tasks)]


def moved(shares: Sequence[Share], more: int, leaving: Sequence[Share] = ()) -> list[Share]:
    """The shares of `more` further tasks, or of fewer: all places of the tasks that are `leaving`, and of the others as
    few as make all even, each from the largest share.

    Places that do not move stay where they are; none leaves a task that has no other, unless all of its places do.
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
