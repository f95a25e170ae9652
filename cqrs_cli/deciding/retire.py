"""Ends a run of aggregates from outside: fences the owners of its partitions and ends their claims."""

from functools import partial

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.ownership.retire import ClaimChange, fence_and_replace_claim, retire_partitions


def retire(plan: Plan) -> None:
    """Retire every partition of the plan. If a partition cannot be reached, its transaction ends by timeout."""
    timeout = plan.timing.retire_deadline
    retire_partitions(plan.connection, plan.claim_slots(), plan.run, partial(replace_claim, plan), timeout)


def replace_claim(plan: Plan, partition: Partition, change: ClaimChange) -> None:
    """Fence a partition's owner, and replace its claim (`ownership.retire.fence_and_replace_claim`)."""
    fence_and_replace_claim(lambda: OwnerSession(plan, partition, plan.claim(partition, 0), 1), change)
