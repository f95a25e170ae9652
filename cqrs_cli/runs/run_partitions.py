"""The partitions of a run: partitions of aggregates, then subscriptions of process managers. A partition's number is
its index in this list.
"""

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription

RunPartition = Partition | Subscription


def run_partitions(plan: Plan, process_plan: ProcessPlan | None) -> list[RunPartition]:
    """Return all partitions and subscriptions in the order of their numbers."""
    return [*plan.partitions(), *(process_plan.subscriptions if process_plan else [])]


def partition_name(partition: RunPartition) -> str:
    """Return the name of a partition or subscription for messages, such as `counter:3` or `checkout:order:3`."""
    return (
        partition.address
        if isinstance(partition, Subscription)
        else f"{partition.aggregate}:{partition.number}"
    )
