"""A model of runs that stand by for each other at one place: who begins, who is taken over, who crashes.

Fencing, position and shard are not in it: the model of one partition has them, and they make a wrong suspicion
harmless. Here the question is whether somebody always works, and whether the runs leave each other in peace. The
judgements are the functions that runs use; `Rules` has those that a test breaks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.ownership.claim import Claim, Judgement, judge
from cqrs_cli.ownership.standby import may_begin, risen

SILENT, AFTER = 3.0, 2.0


class Run(NamedTuple):
    """`step`: stands by, has been given its turn, works, or is gone."""

    mine: Claim
    step: str = "standby"


class Place(NamedTuple):
    """One moment. `suspicions` and `crashes` are the faults that may still come."""

    runs: tuple[Run, ...]
    claim: Claim | None = None
    suspicions: int = 2
    crashes: int = 1

    def changed(self, number: int, run: Run) -> "Place":
        return self._replace(runs=(*self.runs[:number], run, *self.runs[number + 1 :]))


@dataclass(frozen=True)
class Rules:
    """The rules as runs keep them."""

    may_begin: Callable[[Claim, Claim | None, float, float], bool] = may_begin
    risen: Callable[[Claim, Claim | None, int], Claim] = risen
    taken_over_stands_by: bool = True


def beginning(count: int) -> Place:
    """Runs that were started one after the other, and all stand by."""
    return Place(tuple(Run(Claim(number, f"r{number}", 0, 0, 0, "id", 1)) for number in range(count)))


def following(rules: Rules, place: Place) -> Iterator[Place]:
    """Every moment that may come next, without a fault."""
    for number, run in enumerate(place.runs):
        if run.step == "standby" and rules.may_begin(run.mine, place.claim, _silent(place), AFTER):
            yield _begun(rules, place, number, run)
        elif run.step == "turn":  # it fences, and judges what it finds
            later = judge(run.mine, place.claim).ends
            after = place if later else place._replace(claim=run.mine)
            yield after.changed(number, run._replace(step="standby" if later else "works"))
        elif run.step == "works":
            yield from _judged(rules, place, number, run)


def faults(rules: Rules, place: Place) -> Iterator[Place]:
    """The faults that may come next: a run that works crashes, or is suspected although it lives."""
    for number, run in enumerate(place.runs):
        if run.step == "standby" and place.suspicions:
            fewer = place._replace(suspicions=place.suspicions - 1)
            yield _begun(rules, fewer, number, run)
        elif run.step == "works" and place.crashes:
            yield place._replace(crashes=place.crashes - 1).changed(number, run._replace(step="gone"))


def _silent(place: Place) -> float:
    lives = any(one.step == "works" and one.mine == place.claim for one in place.runs)
    return 0.0 if lives else SILENT


def _begun(rules: Rules, place: Place, number: int, run: Run) -> Place:
    return place.changed(number, run._replace(mine=rules.risen(run.mine, place.claim, 0), step="turn"))


def _judged(rules: Rules, place: Place, number: int, run: Run) -> Iterator[Place]:
    judgement = judge(run.mine, place.claim)
    if judgement is Judgement.TAKEN_OVER and rules.taken_over_stands_by:
        yield place.changed(number, run._replace(step="standby"))
    elif judgement is Judgement.TAKEN_OVER:
        yield _begun(rules, place, number, run)
    elif judgement is not Judgement.MINE:  # its claim is gone: it begins again
        yield place.changed(number, run._replace(step="turn"))


class Explored(NamedTuple):
    """`restless`: moments from which no rest can be reached without a further fault."""

    places: int
    rests: list[Place]
    restless: list[Place]


def explored(rules: Rules, start: Place, most: int = 20_000) -> Explored:
    """Every moment that can come, `most` at most. A rest is one after which nothing happens without a fault."""
    before: dict[Place, set[Place]] = {start: set()}
    waiting, rests = [start], list[Place]()
    while waiting and len(before) < most:
        place = waiting.pop()
        nexts = set(following(rules, place))
        if not nexts:
            rests.append(place)
        for one in nexts | set(faults(rules, place)):
            if one not in before:
                before[one] = set()
                waiting.append(one)
        for one in nexts:
            before[one].add(place)
    reaching, waiting = set(rests), list(rests)
    while waiting:
        fresh = before[waiting.pop()] - reaching
        reaching |= fresh
        waiting += fresh
    return Explored(len(before), rests, [place for place in before if place not in reaching])
