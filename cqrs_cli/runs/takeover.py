"""A run that is taken over: by whom, of what, and how to go on for what the later run leaves."""

import time
from collections.abc import Callable, Mapping

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.processes.plan import ProcessPlan
from cqrs_cli.ownership.claim import Claim, Judgement, judge
from cqrs_cli.ownership.standing import Standing
from cqrs_cli.runs.places import RunPlace


class Takeover:
    """The places of a run that a later one has claimed, as far as they were seen."""

    def __init__(
        self, plan: Plan, processes: ProcessPlan | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stands_by = plan.timing.standby_after is not None
        self._mine: dict[RunPlace, Claim] = {at: plan.claim(at, 0) for at in plan.partitions()}
        if processes is not None:
            self._mine |= {at: processes.claim(at, 0) for at in processes.subscriptions}
        self._clock, self._taken, self._since = clock, dict[RunPlace, str](), 0.0

    def see(self, found: Mapping[RunPlace, Standing]) -> None:
        """Note who has claimed these places."""
        for at, standing in found.items():
            claim = standing.claim
            if claim and at not in self._taken and judge(self._mine[at], claim) is Judgement.TAKEN_OVER:
                self._taken[at], self._since = claim.run, self._clock()

    def has_stopped(self, after: float) -> bool:
        """True if the later run has claimed something, and nothing more for `after` seconds. It never ends a run that
        stands by, which waits for its turn.
        """
        return bool(self._taken) and not self._stands_by and self._clock() - self._since > after

    def explained(self, error: TakenOverError) -> TakenOverError:
        """The same error; if a later run took only a part, one that names it, and the way on for the rest."""
        taken = {_name(at): run for at, run in self._taken.items()}
        left = set(map(_name, self._mine)) - set(taken)
        if not taken or not left:
            return error
        aggregates, processes = (sorted(name for kind, name in left if kind == one) for one in _KINDS)
        rest = [f"nobody decides for {', '.join(aggregates)} now"] if aggregates else []
        rest += [f"nobody runs process {', '.join(processes)} now"] if processes else []
        names = ", ".join(f"{kind} {name}".strip() for kind, name in sorted(taken))
        return TakenOverError(
            f"run {next(iter(taken.values()))} took over {names}; {', '.join(rest)}",
            f"let it work, and go on for what it left: {_way_on(aggregates, processes)}",
        )


#: Of what a run has, in messages.
_KINDS = ("", "process")


def _name(at: RunPlace) -> tuple[str, str]:
    return ("", at.aggregate) if isinstance(at, Partition) else ("process", at.process)


def _way_on(aggregates: list[str], processes: list[str]) -> str:
    return " ".join(["cqrs run", *aggregates, *(f"--process {name}" for name in processes)])
