"""Counting a batch of ages at once gives the same as counting them one by one."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from cqrs_cli.telemetry.histogram import BATCH_BOUNDS, LATENCY_BOUNDS, Histogram

NOW = 10_000_000
_times = st.lists(st.integers(NOW - 8_000_000, NOW + 50), min_size=1, max_size=60)


def histogram_of(times: list[int]) -> Histogram:
    histogram = Histogram(LATENCY_BOUNDS)
    histogram.add_ages([Record(n, time) for n, time in enumerate(times)], NOW)
    return histogram


@given(_times)
def test_sorted_ages_are_counted_exactly(times: list[int]) -> None:
    expected = [0] * (len(LATENCY_BOUNDS) + 1)
    for time in times:
        expected[bisect_left(LATENCY_BOUNDS, (NOW - time) / 1000)] += 1
    assert histogram_of(sorted(times)).counts == expected


@given(_times)
def test_no_age_is_lost_or_negative(times: list[int]) -> None:
    """A leader whose clock lags gives times out of order, or later than our clock."""
    histogram = histogram_of(times)
    assert sum(histogram.counts) == len(times) and min(histogram.counts) >= 0
    assert histogram.total == max(0, sum(NOW - time for time in times)) / 1000


def test_later_timestamp_counts_as_zero() -> None:
    assert histogram_of([NOW + 50]).total == 0


def test_bound_belongs_to_its_bucket() -> None:
    histogram = Histogram(BATCH_BOUNDS)
    for size in (1, 2, 3, 5000, 5001):
        histogram.add(size)
    assert [histogram.counts[n] for n in (0, 1, 2, -2, -1)] == [1, 1, 1, 1, 1]
    assert histogram.total == 10_007
