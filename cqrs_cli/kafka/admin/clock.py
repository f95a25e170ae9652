"""The broker's clock, as the leader of the metadata quorum reports it. Reading it changes nothing."""

import time
from collections.abc import Callable
from typing import Any

#: Returns the time of this machine's clock, ms since the epoch.
OwnClock = Callable[[], int]


def local_clock() -> int:
    """Return the time of this machine's clock, ms since the epoch."""
    return time.time_ns() // 1_000_000


def clock_difference(client: Any, own_clock: OwnClock) -> int | None:
    """Return by how many ms `own_clock` is certainly ahead of the broker's clock; negative if it lags. Return 0 if the
    difference is smaller than the duration of the request.

    Return None if the broker does not report its time: this needs the ACL Describe on the cluster, and KRaft.
    """
    from kafka import errors

    requested_at = own_clock()
    try:
        quorum = client.describe_metadata_quorum()
    except (errors.ClusterAuthorizationFailedError, errors.UnsupportedVersionError):
        return None
    broker_time = _leader_time(quorum)
    if broker_time is None:
        return None
    return max(0, requested_at - broker_time) + min(0, own_clock() - broker_time)


def _leader_time(quorum: Any) -> int | None:
    """Return the broker's present time: the time at which the leader, which never lags, has caught up."""
    for topic in quorum["topics"]:
        for partition in topic["partitions"]:
            for voter in partition["current_voters"]:
                if voter["replica_id"] == partition["leader_id"]:
                    timestamp = voter.get("last_caught_up_timestamp", -1)
                    return timestamp if timestamp > 0 else None
    return None


def clock_message(lead_ms: int) -> str:
    """Return the message about a clock difference. `lead_ms`: this machine's lead, negative if its clock is behind."""
    direction = "ahead of" if lead_ms > 0 else "behind"
    return (
        f"the clock of this machine is {abs(lead_ms) / 1000:,.0f} s {direction} the broker's clock: "
        "deferred commands and expiry times depend on both clocks; synchronize them"
    )
