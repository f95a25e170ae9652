"""A histogram with fixed bounds, filled with a whole batch at once."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from cqrs_cli.core.messages.record import Record

#: Upper bounds in seconds of the time from the append of a command to the commit of its outcome.
LATENCY_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)

#: Upper bounds of the number of commands in a batch.
BATCH_BOUNDS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0)

_timestamp = attrgetter("timestamp")


class Histogram:
    """Counts values in buckets: a value belongs to the first bucket whose upper bound is not less than the value.

    The last bucket has no bound. `total` is the sum of the values.
    """

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def add_ages(self, records: Sequence[Record], now: int) -> None:
        """Count the ages in seconds, at the time `now` (ms), of records in the order of their log.

        The order saves a check of each record: the broker's timestamps ascend, except after a change to a leader whose
        clock is slow. Then some ages are counted in a neighbouring bucket. A sum of ages below 0 counts as 0.
        """
        bounds, counts = self._bounds, self.counts
        oldest_bucket = bisect_left(bounds, (now - records[0].timestamp) / 1000)
        newest_bucket = bisect_left(bounds, (now - records[-1].timestamp) / 1000)
        end = len(records)
        for bucket in range(newest_bucket, oldest_bucket):  # from the youngest, which are the last records
            start = bisect_left(records, now - int(bounds[bucket] * 1000), 0, end, key=_timestamp)
            counts[bucket] += end - start
            end = start
        counts[oldest_bucket] += end
        self.total += max(0, now * len(records) - sum(map(_timestamp, records))) / 1000
