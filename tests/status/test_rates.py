"""The rates between two snapshots."""

import pytest
from msgspec.structs import replace

from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.partition import PartitionOwner, PartitionStatus, Rates
from cqrs_cli.status.rates import with_rates, with_zero_rates
from tests.support.statuses import decided_partition, status_snapshot, subscribed_partition

IDLE = decided_partition(end=100, position=100, counts=Counts(accepted=80, rejected=20))


def rates(before: PartitionStatus, after: PartitionStatus) -> Rates | None:
    """Return the rates of two snapshots, two seconds apart."""
    (status,) = with_rates(
        status_snapshot(before), status_snapshot(replace(after, polled_at=before.polled_at + 2))
    ).statuses
    return status.rates


def test_rates_compare_two_snapshots() -> None:
    counts = Counts(accepted=90, rejected=26, failed=4)
    assert rates(IDLE, replace(IDLE, end=140, position=120, counts=counts)) == Rates(20, 10, 5)


def test_rates_measure_transactions() -> None:
    before = replace(IDLE, counts=Counts(accepted=80, transactions=10, commit_us=50_000))
    after = replace(IDLE, counts=Counts(accepted=120, transactions=14, commit_us=70_000))
    assert rates(before, after) == Rates(0, 20, 0, transactions=2, batch=10, commit_ms=5)


def test_an_old_burst_is_not_a_rate() -> None:
    assert rates(IDLE, IDLE) == Rates(0, 0, 0)


def test_first_snapshot_has_no_rates() -> None:
    assert with_rates(None, status_snapshot(IDLE)).statuses[0].rates is None
    assert with_rates(status_snapshot(decided_partition(7)), status_snapshot(IDLE)).statuses[0].rates is None


def test_a_new_run_counts_from_zero() -> None:
    rates_now = rates(IDLE, replace(IDLE, owner=PartitionOwner("b"), counts=Counts(accepted=6)))
    assert rates_now is not None and rates_now.done == 3


def test_shrinking_numbers_are_no_rates() -> None:
    """A topic was recreated, or an owner started its run again."""
    assert rates(IDLE, replace(IDLE, end=3, position=1, counts=Counts(accepted=1))) == Rates(0, 0, 0)


def test_processes_are_measured_by_position() -> None:
    """Process managers have no counts, and two runs cannot be compared."""
    before, after = subscribed_partition(end=100, position=10), subscribed_partition(end=100, position=50)
    assert rates(before, after) == Rates(0, 20, 0)
    assert rates(before, replace(after, owner=PartitionOwner("s"))) == Rates(0, 0, 0)
    assert rates(replace(before, position=None), after) == Rates(0, 0, 0)


@pytest.mark.parametrize(
    ("status", "is_busy"),
    [
        (decided_partition(counts=Counts(accepted=1, last=55_000)), True),
        (decided_partition(counts=Counts(accepted=1, last=5_000)), False),
        (decided_partition(counts=Counts(accepted=1, last=55_000), is_owned=False), False),
        (subscribed_partition(lag=1), True),
        (subscribed_partition(lag=0), False),
    ],
)
def test_recent_decisions_or_lag_are_busy(status: PartitionStatus, is_busy: bool) -> None:
    assert status_snapshot(status).is_busy() is is_busy


def test_idle_owners_have_zero_rates() -> None:
    owned, unclaimed = with_zero_rates(status_snapshot(IDLE, decided_partition(1, counts=None))).statuses
    assert (owned.rates, unclaimed.rates) == (Rates(None, 0, 0), None)
