"""Invented statuses of partitions."""

from typing import Any

from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.partition import DECIDED, HEARD, PROJECTED, PlaceOwner, PlaceStatus
from cqrs_cli.status.rates import Look

#: The owner of all partitions.
RUN = PlaceOwner("a", since=1_000)

#: The fields of a partition whose ten records are processed.
_DONE: dict[str, Any] = {
    "at": 10.0,
    "start": 0,
    "end": 10,
    "position": 10,
    "lag": 0,
    "owner": RUN,
    "owned": True,
}


def decided(partition: int = 0, name: str = "bank", **members: Any) -> PlaceStatus:
    """Return the status of a partition with ten decided commands, one per second, and none left."""
    known = _DONE | {"counts": Counts(accepted=10)} | members
    return PlaceStatus(DECIDED, name, name, f"{name}.commands", partition, **known)


def heard(partition: int = 0, **members: Any) -> PlaceStatus:
    """Return the status of a partition of orders to which `checkout` subscribes, with ten processed events."""
    return PlaceStatus(HEARD, "checkout", "order", "order.events", partition, **(_DONE | members))


def projected(partition: int = 0, **members: Any) -> PlaceStatus:
    """Return the status of a partition of orders with ten projected events."""
    known: dict[str, Any] = {"end": 10, "position": 10, "lag": 0, "owner": PlaceOwner("p"), **members}
    return PlaceStatus(PROJECTED, "recent", "order", "order.events", partition, **known)


def look(*places: PlaceStatus, clock: int = 60_000) -> Look:
    return Look(clock, places)
