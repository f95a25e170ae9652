"""The choices that keys make in a live display, and the reasons of the last minute. Pure."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from cqrs_cli.status.columns import COLUMNS, Row, StatusColumn, row, total
from cqrs_cli.status.partition import PartitionStatus
from cqrs_cli.status.rates import StatusSnapshot

#: The period of the displayed reasons in seconds.
REASONS_FOR = 60.0

#: Key → the column by which rows are sorted.
SORTS = {"n": "name", **{column.key: column.name for column in COLUMNS if column.key}}


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices made by the keys."""

    sort: str = "name"
    paused: bool = False
    folded: bool = False  # one row for each aggregate
    ended: bool = False

    def press(self, key: str) -> "Choices":
        """Return the choices after a key; unknown keys change nothing."""
        if key in SORTS:
            return replace(self, sort=SORTS[key])
        match key:
            case "p" | " ":
                return replace(self, paused=not self.paused)
            case "a":
                return replace(self, folded=not self.folded)
            case "q":
                return replace(self, ended=True)
        return self

    def rows(self, places: Iterable[PartitionStatus], columns: Sequence[StatusColumn]) -> list[Row]:
        """Return the rows to show, in order: the largest value first, names in alphabetical order."""
        ordered = sorted(places, key=lambda place: (place.subject, place.partition))
        rows = [row(place, columns) for place in ordered]
        if self.folded:
            groups = groupby(zip(ordered, rows, strict=True), lambda pair: pair[0].subject)
            rows = [total(name, [one for _, one in pairs], columns) for name, pairs in groups]
        numbers = [number for number, column in enumerate(columns) if column.name == self.sort]
        for number in numbers:
            rows.sort(
                key=lambda one: -1.0 if one.values[number] is None else one.values[number], reverse=True
            )
        return rows


class Reasons:
    """The reasons of the last minute, summed over all partitions of an aggregate."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, str, Mapping[str, int]]] = deque()

    def add(self, look: StatusSnapshot) -> None:
        """Add a snapshot, and remove snapshots that are older than a minute."""
        self._seen += [(place.at, place.name, place.reasons) for place in look.statuses if place.reasons]
        now = max((place.at for place in look.statuses), default=0.0)
        while self._seen and self._seen[0][0] < now - REASONS_FOR:
            self._seen.popleft()

    def most(self, count: int) -> list[tuple[str, str, int]]:
        """Return the most frequent reasons as (aggregate, reason, count)."""
        sums: Counter[tuple[str, str]] = Counter()
        for _, aggregate, reasons in self._seen:
            for reason, times in reasons.items():
                sums[aggregate, reason] += times
        return [(*key, times) for key, times in sums.most_common(count)]
