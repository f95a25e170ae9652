"""The numbering of a run's partitions: first the partitions of aggregates, then the subscriptions of processes."""

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription

RunPartition = Partition | Subscription


def run_partitions(plan: Plan, processes: ProcessPlan | None) -> list[RunPartition]:
    """Return all partitions and subscriptions in the order of their numbers."""
    return [*plan.partitions(), *(processes.subscriptions if processes else [])]
