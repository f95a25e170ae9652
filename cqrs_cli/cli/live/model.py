"""The pure logic of the live display: the options that the user sets by pressing keys, and the rejections and failures
of the last minute by reason.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from cqrs_cli.status.columns import COLUMNS, Row, StatusColumn, partition_row, total_row
from cqrs_cli.status.partition import PartitionStatus
from cqrs_cli.status.rates import StatusSnapshot

#: The period of the displayed reasons in seconds.
REASONS_PERIOD = 60.0

#: Key → the column by which rows are sorted.
SORT_KEYS = {"n": "name", **{column.sort_key: column.name for column in COLUMNS if column.sort_key}}


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """The view of the live display, as set by keys. `sort`: the column by which rows are sorted, or `name`."""

    sort: str = "name"
    is_paused: bool = False
    is_grouped: bool = False  # one row for each aggregate
    is_quitting: bool = False

    def press(self, key: str) -> "DisplayOptions":
        """Return the options after a key; unknown keys change nothing."""
        if key in SORT_KEYS:
            return replace(self, sort=SORT_KEYS[key])
        match key:
            case "p" | " ":
                return replace(self, is_paused=not self.is_paused)
            case "a":
                return replace(self, is_grouped=not self.is_grouped)
            case "q":
                return replace(self, is_quitting=True)
        return self

    def rows(self, statuses: Iterable[PartitionStatus], columns: Sequence[StatusColumn]) -> list[Row]:
        """Return the rows to show, in order: the largest value first, names in alphabetical order."""
        sorted_statuses = sorted(statuses, key=lambda status: (status.group_name, status.partition))
        rows = [partition_row(status, columns) for status in sorted_statuses]
        if self.is_grouped:
            groups = groupby(zip(sorted_statuses, rows, strict=True), lambda pair: pair[0].group_name)
            rows = [total_row(name, [line for _, line in pairs], columns) for name, pairs in groups]
        sort_indexes = [index for index, column in enumerate(columns) if column.name == self.sort]
        for index in sort_indexes:  # at most one; empty if rows are sorted by name
            rows.sort(
                key=lambda line: -1.0 if line.values[index] is None else line.values[index], reverse=True
            )
        return rows


class RecentReasons:
    """The reasons of the last minute, summed over all partitions of an aggregate."""

    def __init__(self) -> None:
        #: (time of the snapshot in seconds, aggregate, reason → count).
        self._samples: deque[tuple[float, str, Mapping[str, int]]] = deque()

    def add_snapshot(self, snapshot: StatusSnapshot) -> None:
        """Add a snapshot, and remove snapshots that are older than a minute."""
        self._samples += [
            (status.polled_at, status.name, status.reasons) for status in snapshot.statuses if status.reasons
        ]
        now = max((status.polled_at for status in snapshot.statuses), default=0.0)
        while self._samples and self._samples[0][0] < now - REASONS_PERIOD:
            self._samples.popleft()

    def most_frequent(self, count: int) -> list[tuple[str, str, int]]:
        """Return the most frequent reasons as (aggregate, reason, count)."""
        sums: Counter[tuple[str, str]] = Counter()
        for _, aggregate, reasons in self._samples:
            for reason, occurrences in reasons.items():
                sums[aggregate, reason] += occurrences
        return [(*key, occurrences) for key, occurrences in sums.most_common(count)]
