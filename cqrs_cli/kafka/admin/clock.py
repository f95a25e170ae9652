"""Reads the broker's clock from a description of the metadata quorum. It changes nothing on the broker."""

import time
from collections.abc import Callable
from typing import Any

#: Returns the time of this machine's clock, ms since the epoch.
OwnClock = Callable[[], int]


def local_clock() -> int:
    """Return the time of this machine's clock, ms since the epoch."""
    return time.time_ns() // 1_000_000


def clock_difference(client: Any, own_clock: OwnClock) -> int | None:
    """Return the minimal difference, in ms, by which `own_clock` is ahead of the broker's clock; negative if it lags.
    Return 0 if the difference may be explained by the duration of the request.

    Return None if the broker does not report its time. Brokers report it only with KRaft, to users with the ACL
    Describe on the cluster.
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
    """Return the present time (ms) of the quorum's leader, or None. The leader never lags, so it reports its present
    time as the time at which it has caught up.
    """
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
