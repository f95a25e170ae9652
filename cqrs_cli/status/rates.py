"""Computes the rates of partitions between two snapshots of their status. Pure: nothing is polled here."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.partition import AGGREGATE, PartitionStatus, Rates

#: The rates of a partition in which nothing has changed.
_NO_CHANGE = Rates(0.0, 0.0, 0.0)

#: An owner counts as idle if its last commit (by its own clock) was this long ago (by this machine's clock).
_IDLE_AFTER_MS = 10_000


class StatusSnapshot(NamedTuple):
    """The status of all partitions at one time."""

    clock: int  # ms since the epoch
    statuses: tuple[PartitionStatus, ...]
    #: Name of an aggregate or process without topics → the error.
    missing: Mapping[str, ConfigurationError] = {}

    def is_busy(self) -> bool:
        """True if a partition may have progress now: then a second snapshot shows its rate."""
        return any(_is_busy(status, self.clock) for status in self.statuses)


def _is_busy(status: PartitionStatus, clock: int) -> bool:
    """Return True if the partition may have progress: it has a recent decision, or a process or projection has lag."""
    if status.kind is AGGREGATE:
        last_decision = 0 if status.counts is None else status.counts.last
        return bool(status.is_owned) and clock - last_decision < _IDLE_AFTER_MS
    return bool(status.is_owned and status.lag)


def with_rates(previous: StatusSnapshot | None, current: StatusSnapshot) -> StatusSnapshot:
    """Return the snapshot with the rates since the previous snapshot."""
    previous_by_key = {} if previous is None else {status.poll_key: status for status in previous.statuses}
    statuses = (
        replace(status, rates=_rates(previous_by_key.get(status.poll_key), status))
        for status in current.statuses
    )
    return current._replace(statuses=tuple(statuses))


def with_zero_rates(snapshot: StatusSnapshot) -> StatusSnapshot:
    """Return the snapshot with the rate 0 for every owner; used if nothing is being decided."""
    statuses = (
        replace(status, rates=None if status.counts is None else Rates(None, 0, 0))
        for status in snapshot.statuses
    )
    return snapshot._replace(statuses=tuple(statuses))


def _rates(previous: PartitionStatus | None, current: PartitionStatus) -> Rates | None:
    if previous is None or current.polled_at <= previous.polled_at:
        return None
    if (
        previous.counts is current.counts
        and previous.owner is current.owner
        and (previous.end, previous.position) == (current.end, current.position)
    ):
        return _NO_CHANGE
    seconds = decided_seconds = current.polled_at - previous.polled_at
    is_same_run = _owner_run(previous) == _owner_run(current)
    transactions, commit_us = 0, 0
    if current.kind is AGGREGATE:
        # A run counts from zero when it begins: counts of another run are not comparable.
        old_counts = (previous.counts if is_same_run else None) or Counts()
        new_counts = current.counts or Counts()
        # An owner commits its counts at least twice a second, or was idle before.
        commit_seconds = (new_counts.last - old_counts.last) / 1000
        if 0 < commit_seconds <= seconds + 1:
            decided_seconds = commit_seconds
        done_count = new_counts.commands - old_counts.commands
        rejected_count = (new_counts.rejected + new_counts.failed) - (old_counts.rejected + old_counts.failed)
        transactions, commit_us = (
            new_counts.transactions - old_counts.transactions,
            new_counts.commit_us - old_counts.commit_us,
        )
    else:
        is_known = is_same_run and previous.position is not None and current.position is not None
        done_count = (current.position or 0) - (previous.position or 0) if is_known else 0
        rejected_count = 0
    sent_count = (current.end or 0) - (previous.end or 0)
    sent_rate = max(0, sent_count) / seconds
    done_rate, rejected_rate = (max(0, count) / decided_seconds for count in (done_count, rejected_count))
    if transactions <= 0:
        return Rates(sent_rate, done_rate, rejected_rate)
    batch, commit_ms = max(0, done_count) / transactions, max(0, commit_us) / transactions / 1000
    return Rates(sent_rate, done_rate, rejected_rate, transactions / decided_seconds, batch, commit_ms)


def _owner_run(status: PartitionStatus) -> str | None:
    return None if status.owner is None else status.owner.run
