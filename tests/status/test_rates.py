"""The rates between two snapshots."""

from dataclasses import replace

import pytest

from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.partition import PartitionOwner, PartitionStatus, Rates
from cqrs_cli.status.rates import with_rates, with_zero_rates
from tests.support.statuses import decided_partition, status_snapshot, subscribed_partition

QUIET = decided_partition(end=100, position=100, counts=Counts(accepted=80, rejected=20))


def rates(was: PartitionStatus, now: PartitionStatus) -> Rates | None:
    """Return the rates of two snapshots, two seconds apart."""
    (place,) = with_rates(status_snapshot(was), status_snapshot(replace(now, at=was.at + 2))).statuses
    return place.rates


def test_rates_are_those_between_looks() -> None:
    later = Counts(accepted=90, rejected=26, failed=4)
    assert rates(QUIET, replace(QUIET, end=140, position=120, counts=later)) == (20, 10, 5)


def test_an_old_burst_is_not_a_rate() -> None:
    assert rates(QUIET, QUIET) == (0, 0, 0)


def test_the_first_look_has_no_rates() -> None:
    assert with_rates(None, status_snapshot(QUIET)).statuses[0].rates is None
    assert with_rates(status_snapshot(decided_partition(7)), status_snapshot(QUIET)).statuses[0].rates is None


def test_a_new_run_counts_from_zero() -> None:
    rates_now = rates(QUIET, replace(QUIET, owner=PartitionOwner("b"), counts=Counts(accepted=6)))
    assert rates_now is not None and rates_now.done == 3


def test_shrinking_numbers_are_no_rates() -> None:
    """A topic was recreated, or an owner started its run again."""
    assert rates(QUIET, replace(QUIET, end=3, position=1, counts=Counts(accepted=1))) == (0, 0, 0)


def test_processes_are_measured_by_position() -> None:
    """Process managers have no counts, and two runs cannot be compared."""
    was, now = subscribed_partition(end=100, position=10), subscribed_partition(end=100, position=50)
    assert rates(was, now) == (0, 20, 0)
    assert rates(was, replace(now, owner=PartitionOwner("s"))) == (0, 0, 0)
    assert rates(replace(was, position=None), now) == (0, 0, 0)


@pytest.mark.parametrize(
    ("place", "busy"),
    [
        (decided_partition(counts=Counts(accepted=1, last=55_000)), True),
        (decided_partition(counts=Counts(accepted=1, last=5_000)), False),
        (decided_partition(counts=Counts(accepted=1, last=55_000), owned=False), False),
        (subscribed_partition(lag=1), True),
        (subscribed_partition(lag=0), False),
    ],
)
def test_busy_places_deserve_a_second_look(place: PartitionStatus, busy: bool) -> None:
    assert status_snapshot(place).is_busy() is busy


def test_owners_at_rest_decide_nothing() -> None:
    owned, new = with_zero_rates(status_snapshot(QUIET, decided_partition(1, counts=None))).statuses
    assert (owned.rates, new.rates) == (Rates(None, 0, 0), None)
