"""The takeover of a run: the later run, the partitions that it has claimed, and how to continue with the others."""

import time
from collections.abc import Callable, Mapping

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.processes.plan import ProcessPlan
from cqrs_cli.ownership.claim import Claim, Judgement, judge
from cqrs_cli.ownership.committed_claims import CommittedClaim
from cqrs_cli.runs.run_partitions import RunPlace


class Takeover:
    """The partitions of a run that a later run has claimed, as far as polls have shown."""

    def __init__(
        self, plan: Plan, processes: ProcessPlan | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stands_by = plan.timing.standby_timeout is not None
        self._mine: dict[RunPlace, Claim] = {at: plan.claim(at, 0) for at in plan.partitions()}
        if processes is not None:
            self._mine |= {at: processes.claim(at, 0) for at in processes.subscriptions}
        self._clock, self._taken, self._since = clock, dict[RunPlace, str](), 0.0

    def see(self, found: Mapping[RunPlace, CommittedClaim]) -> None:
        """Note the owners of these partitions."""
        for at, standing in found.items():
            claim = standing.claim
            if claim and at not in self._taken and judge(self._mine[at], claim) is Judgement.TAKEN_OVER:
                self._taken[at], self._since = claim.run, self._clock()

    def has_stopped(self, after: float) -> bool:
        """True if the later run has claimed a partition, and no other partition for `after` seconds. Always False in a
        standby run, which waits for its turn.
        """
        return bool(self._taken) and not self._stands_by and self._clock() - self._since > after

    def explained(self, error: TakenOverError) -> TakenOverError:
        """Return the error unchanged, or, after a takeover of some aggregates and processes, an error that names them
        and the way to continue with the others.
        """
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


#: The prefix of an aggregate's name and of a process's name in messages.
_KINDS = ("", "process")


def _name(at: RunPlace) -> tuple[str, str]:
    return ("", at.aggregate) if isinstance(at, Partition) else ("process", at.process)


def _way_on(aggregates: list[str], processes: list[str]) -> str:
    return " ".join(["cqrs run", *aggregates, *(f"--process {name}" for name in processes)])
