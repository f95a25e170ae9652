"""A model of runs in standby mode at one partition: takeovers, false alarms and crashes.

The model omits fences, positions and shards, which the model of one partition covers: they make a false alarm harmless.
This model checks that some run always decides, and that the runs stop taking over from each other. It calls the
functions of the code; `Rules` has the functions that a test breaks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.ownership.claim import Claim, Judgement, judge
from cqrs_cli.ownership.standby import can_take_over, next_claim

SILENT, AFTER = 3.0, 2.0


class Run(NamedTuple):
    """A run. `step` is standby, turn (it takes over), works or gone."""

    mine: Claim
    step: str = "standby"


class Place(NamedTuple):
    """One moment. `suspicions` and `crashes` count the faults that may still happen."""

    runs: tuple[Run, ...]
    claim: Claim | None = None
    suspicions: int = 2
    crashes: int = 1

    def changed(self, number: int, run: Run) -> "Place":
        return self._replace(runs=(*self.runs[:number], run, *self.runs[number + 1 :]))


@dataclass(frozen=True)
class Rules:
    """The rules that runs keep."""

    can_take_over: Callable[[Claim, Claim | None, float, float], bool] = can_take_over
    next_claim: Callable[[Claim, Claim | None, int], Claim] = next_claim
    taken_over_stands_by: bool = True


def beginning(count: int) -> Place:
    """Return runs that were started in sequence and are all in standby mode."""
    return Place(tuple(Run(Claim(number, f"r{number}", 0, 0, 0, "id", 1)) for number in range(count)))


def following(rules: Rules, place: Place) -> Iterator[Place]:
    """Yield every possible next moment without a fault."""
    for number, run in enumerate(place.runs):
        if run.step == "standby" and rules.can_take_over(run.mine, place.claim, _silent(place), AFTER):
            yield _begun(rules, place, number, run)
        elif run.step == "turn":  # it fences, and judges the committed claim
            later = judge(run.mine, place.claim).must_return
            after = place if later else place._replace(claim=run.mine)
            yield after.changed(number, run._replace(step="standby" if later else "works"))
        elif run.step == "works":
            yield from _judged(rules, place, number, run)


def faults(rules: Rules, place: Place) -> Iterator[Place]:
    """Yield the next moments after a fault: an active run crashes, or is suspected although it lives."""
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
    return place.changed(number, run._replace(mine=rules.next_claim(run.mine, place.claim, 0), step="turn"))


def _judged(rules: Rules, place: Place, number: int, run: Run) -> Iterator[Place]:
    judgement = judge(run.mine, place.claim)
    if judgement is Judgement.LATER_RUN and rules.taken_over_stands_by:
        yield place.changed(number, run._replace(step="standby"))
    elif judgement is Judgement.LATER_RUN:
        yield _begun(rules, place, number, run)
    elif judgement is not Judgement.OWN:  # its claim is gone: it starts again
        yield place.changed(number, run._replace(step="turn"))


class Explored(NamedTuple):
    """The result of a search. `restless` has the moments from which no final moment is reachable without a fault."""

    places: int
    rests: list[Place]
    restless: list[Place]


def explored(rules: Rules, start: Place, most: int = 20_000) -> Explored:
    """Visit all reachable moments, at most `most`. Only a fault can change a final moment."""
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
