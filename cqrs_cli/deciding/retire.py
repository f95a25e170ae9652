"""Ends a run of aggregates from outside."""

from functools import partial

from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.ownership.claim import terminal
from cqrs_cli.ownership.retire import ClaimChange, leave_claim, retire_places


def retire(plan: Plan) -> None:
    """Retire every partition of the plan. If a partition cannot be reached, its transaction ends by timeout."""
    within = plan.timing.retire_deadline
    retire_places(plan.connection, plan.seats(), plan.run, partial(_retire, plan), within)


def _retire(plan: Plan, partition: Partition) -> None:
    replace_claim(plan, partition, lambda _, claim: terminal(claim, plan.run))


def replace_claim(plan: Plan, partition: Partition, change: ClaimChange) -> None:
    """Fence a partition's owner, and replace its claim (`ownership.retire.leave_claim`)."""
    leave_claim(lambda: OwnerSession(plan, partition, plan.claim(partition, 0), 1, Measures()), change)
