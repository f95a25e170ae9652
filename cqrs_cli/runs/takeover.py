"""Observes the takeover of a run by a later run: the partitions that the later run has claimed, and the command line
for the aggregates and process managers that it has left.
"""

import time
from collections.abc import Callable, Mapping

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.processes.plan import ProcessPlan
from cqrs_cli.ownership.claim import Claim, Judgement, judge
from cqrs_cli.ownership.committed_claims import CommittedClaim
from cqrs_cli.runs.run_partitions import RunPartition


class Takeover:
    """The partitions of this run that a later run has claimed, according to the polls so far."""

    def __init__(
        self, plan: Plan, process_plan: ProcessPlan | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_standby = plan.timing.standby_timeout is not None
        # Partition → a claim of this run, to compare committed claims with it.
        self._own_claims: dict[RunPartition, Claim] = {
            partition: plan.claim(partition, 0) for partition in plan.partitions()
        }
        if process_plan is not None:
            self._own_claims |= {
                partition: process_plan.claim(partition, 0) for partition in process_plan.subscriptions
            }
        self._clock, self._last_claim_at = clock, 0.0  # when the later run last claimed a partition
        self._later_runs: dict[RunPartition, str] = {}  # partition → the later run that has claimed it

    def observe_claims(self, claims: Mapping[RunPartition, CommittedClaim]) -> None:
        """Store the partitions that a later run has claimed."""
        for partition, committed in claims.items():
            claim = committed.claim
            if (
                claim
                and partition not in self._later_runs
                and judge(self._own_claims[partition], claim) is Judgement.LATER_RUN
            ):
                self._later_runs[partition], self._last_claim_at = claim.run, self._clock()

    def has_stalled(self, timeout: float) -> bool:
        """True if the later run has claimed a partition, but no further partition for `timeout` seconds.

        Always False if this run is a standby run, because it expects that another run is active.
        """
        return (
            bool(self._later_runs) and not self._is_standby and self._clock() - self._last_claim_at > timeout
        )

    def explain_error(self, error: TakenOverError) -> TakenOverError:
        """Return an error with the aggregates and process managers that were taken over, and the command line for the
        others. Return `error` if the later run has taken over everything.
        """
        later_runs = {_prefix_and_name(partition): run for partition, run in self._later_runs.items()}
        remaining_names = set(map(_prefix_and_name, self._own_claims)) - set(later_runs)
        if not later_runs or not remaining_names:
            return error
        aggregates = sorted(name for prefix, name in remaining_names if not prefix)
        processes = sorted(name for prefix, name in remaining_names if prefix)
        consequences = [f"no run decides for {', '.join(aggregates)} now"] if aggregates else []
        consequences += [f"no run handles process {', '.join(processes)} now"] if processes else []
        names = ", ".join(f"{prefix} {name}".strip() for prefix, name in sorted(later_runs))
        return TakenOverError(
            f"run {next(iter(later_runs.values()))} took over {names}; {', '.join(consequences)}",
            f"leave that run active, and start the rest: {_command_line(aggregates, processes)}",
        )


def _prefix_and_name(partition: RunPartition) -> tuple[str, str]:
    """Return `("", "order")` for a partition of an aggregate, `("process", "checkout")` for a subscription."""
    return ("", partition.aggregate) if isinstance(partition, Partition) else ("process", partition.process)


def _command_line(aggregates: list[str], processes: list[str]) -> str:
    return " ".join(["cqrs run", *aggregates, *(f"--process {name}" for name in processes)])
