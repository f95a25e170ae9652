"""Invented statuses of partitions."""

from typing import Any

from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.partition import AGGREGATE, PROCESS, PROJECTION, PartitionOwner, PartitionStatus
from cqrs_cli.status.rates import StatusSnapshot

#: The owner of decided and subscribed partitions.
OWNER = PartitionOwner("a", since=1_000)

#: The fields of a partition whose ten records are processed.
_PROCESSED: dict[str, Any] = {
    "polled_at": 10.0,
    "start": 0,
    "end": 10,
    "position": 10,
    "lag": 0,
    "owner": OWNER,
    "is_owned": True,
}


def decided_partition(partition: int = 0, name: str = "bank", **overrides: Any) -> PartitionStatus:
    """Return the status of a partition with ten decided commands and no undecided command."""
    fields = _PROCESSED | {"counts": Counts(accepted=10)} | overrides
    return PartitionStatus(AGGREGATE, name, name, f"{name}.commands", partition, **fields)


def subscribed_partition(partition: int = 0, **overrides: Any) -> PartitionStatus:
    """Return the status of a partition of orders to which `checkout` subscribes, with ten processed events."""
    return PartitionStatus(
        PROCESS, "checkout", "order", "order.events", partition, **(_PROCESSED | overrides)
    )


def projected_partition(partition: int = 0, **overrides: Any) -> PartitionStatus:
    """Return the status of a partition of orders with ten projected events."""
    fields: dict[str, Any] = {"end": 10, "position": 10, "lag": 0, "owner": PartitionOwner("p"), **overrides}
    return PartitionStatus(PROJECTION, "recent", "order", "order.events", partition, **fields)


def status_snapshot(*partitions: PartitionStatus, clock: int = 60_000) -> StatusSnapshot:
    return StatusSnapshot(clock, partitions)
