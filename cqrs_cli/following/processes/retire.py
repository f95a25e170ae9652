"""Ends the owners of a run's process managers from the driver: fences each owner, and commits a terminal claim."""

from functools import partial

from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.session import ReactSession
from cqrs_cli.ownership.retire import ClaimChange, fence_and_replace_claim, retire_partitions


def retire_processes(plan: ProcessPlan) -> None:
    """Retire every subscription of the plan. The transaction timeout ends transactions on unreachable partitions."""
    timeout = plan.timing.retire_deadline
    retire_partitions(plan.connection, plan.claim_slots(), plan.run, partial(replace_claim, plan), timeout)


def replace_claim(plan: ProcessPlan, subscription: Subscription, change: ClaimChange) -> None:
    """Fence a subscription's owner and replace its claim (`ownership.retire.fence_and_replace_claim`)."""
    fence_and_replace_claim(lambda: ReactSession(plan, subscription, plan.claim(subscription, 0), 1), change)
