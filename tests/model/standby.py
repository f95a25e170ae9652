"""A model of runs in standby mode at one partition: takeovers, false alarms and crashes.

The model omits fences, positions and shards, which the model of one partition covers: they make a false alarm harmless.
This model checks that some run always decides, and that takeovers end. It calls the functions of the code; `Rules` has
the functions that a test breaks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cqrs_cli.ownership.claim import Claim, Judgement, judge
from cqrs_cli.ownership.standby import can_take_over, next_claim

SILENT_SECONDS, TIMEOUT = 3.0, 2.0


class Run(NamedTuple):
    """A run. `step` is standby, takeover, active or gone."""

    own_claim: Claim
    step: str = "standby"


class Moment(NamedTuple):
    """The state of all runs. `false_alarms` and `crashes` count the faults that may still happen."""

    runs: tuple[Run, ...]
    claim: Claim | None = None
    false_alarms: int = 2
    crashes: int = 1

    def with_run(self, number: int, run: Run) -> "Moment":
        return self._replace(runs=(*self.runs[:number], run, *self.runs[number + 1 :]))


@dataclass(frozen=True)
class Rules:
    """The rules that runs keep."""

    can_take_over: Callable[[Claim, Claim | None, float, float], bool] = can_take_over
    next_claim: Callable[[Claim, Claim | None, int], Claim] = next_claim
    returns_to_standby: bool = True


def first_moment(count: int) -> Moment:
    """Return runs that were started in sequence and are all in standby mode."""
    return Moment(tuple(Run(Claim(number, f"r{number}", 0, 0, 0, "id", 1)) for number in range(count)))


def next_moments(rules: Rules, moment: Moment) -> Iterator[Moment]:
    """Yield every possible next moment without a fault."""
    for number, run in enumerate(moment.runs):
        if run.step == "standby" and rules.can_take_over(
            run.own_claim, moment.claim, _silent_seconds(moment), TIMEOUT
        ):
            yield _start_takeover(rules, moment, number, run)
        elif run.step == "takeover":  # it fences, and judges the committed claim
            later = judge(run.own_claim, moment.claim).must_return
            moment_after = moment if later else moment._replace(claim=run.own_claim)
            yield moment_after.with_run(number, run._replace(step="standby" if later else "active"))
        elif run.step == "active":
            yield from _check_claim(rules, moment, number, run)


def faults(rules: Rules, moment: Moment) -> Iterator[Moment]:
    """Yield the next moments after a fault: an active run crashes, or a standby wrongly takes it for dead."""
    for number, run in enumerate(moment.runs):
        if run.step == "standby" and moment.false_alarms:
            fewer = moment._replace(false_alarms=moment.false_alarms - 1)
            yield _start_takeover(rules, fewer, number, run)
        elif run.step == "active" and moment.crashes:
            yield moment._replace(crashes=moment.crashes - 1).with_run(number, run._replace(step="gone"))


def _silent_seconds(moment: Moment) -> float:
    is_active = any(run.step == "active" and run.own_claim == moment.claim for run in moment.runs)
    return 0.0 if is_active else SILENT_SECONDS


def _start_takeover(rules: Rules, moment: Moment, number: int, run: Run) -> Moment:
    return moment.with_run(
        number, run._replace(own_claim=rules.next_claim(run.own_claim, moment.claim, 0), step="takeover")
    )


def _check_claim(rules: Rules, moment: Moment, number: int, run: Run) -> Iterator[Moment]:
    judgement = judge(run.own_claim, moment.claim)
    if judgement is Judgement.LATER_RUN and rules.returns_to_standby:
        yield moment.with_run(number, run._replace(step="standby"))
    elif judgement is Judgement.LATER_RUN:
        yield _start_takeover(rules, moment, number, run)
    elif judgement is not Judgement.OWN:  # its claim is gone: it starts again
        yield moment.with_run(number, run._replace(step="takeover"))


class SearchResult(NamedTuple):
    """The result of a search. From `unstable_moments` only a fault leads to a final moment."""

    moment_count: int
    final_moments: list[Moment]
    unstable_moments: list[Moment]


def explore_moments(rules: Rules, start: Moment, max_moments: int = 20_000) -> SearchResult:
    """Visit all reachable moments, at most `max_moments`. Only a fault can change a final moment."""
    predecessors: dict[Moment, set[Moment]] = {start: set()}
    queue, final_moments = [start], list[Moment]()
    while queue and len(predecessors) < max_moments:
        moment = queue.pop()
        successors = set(next_moments(rules, moment))
        if not successors:
            final_moments.append(moment)
        for successor in successors | set(faults(rules, moment)):
            if successor not in predecessors:
                predecessors[successor] = set()
                queue.append(successor)
        for successor in successors:
            predecessors[successor].add(moment)
    stable_moments, queue = set(final_moments), list(final_moments)
    while queue:
        newly_stable = predecessors[queue.pop()] - stable_moments
        stable_moments |= newly_stable
        queue += newly_stable
    return SearchResult(
        len(predecessors), final_moments, [moment for moment in predecessors if moment not in stable_moments]
    )
