"""The places of a run, as they are numbered: partitions that are decided, then those that are heard."""

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription

RunPlace = Partition | Subscription


def places(plan: Plan, processes: ProcessPlan | None) -> list[RunPlace]:
    """All of them."""
    return [*plan.partitions(), *(processes.subscriptions if processes else [])]
