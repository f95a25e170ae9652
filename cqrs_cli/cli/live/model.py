"""The numbers that `cqrs top` shows for two looks, and what its keys change. Pure."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

#: Seconds of which the reasons are shown.
REASONS_FOR = 60.0

#: (aggregate, partition)
Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """A partition at one moment. `counts` are sums by status since `run` began to own it; times are in ms."""

    end: int
    position: int
    run: str = ""  # the owner's, empty if there is none
    stopped: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    oldest: int | None = None  # the timestamp of the first command that is not decided yet
    latency: int | None = None  # of the last command that was decided since the look before
    reasons: Mapping[str, int] = field(default_factory=dict)  # of outcomes since the look before
    notes: tuple[str, ...] = ()
    reacts: bool = False  # a process hears it: there is nothing to count but its position

    @property
    def lag(self) -> int:
        """The number of commands that are not decided yet; an upper bound, as offsets have holes."""
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class Look:
    """All partitions at one moment: `at` in monotonic seconds, `clock` in ms since the epoch."""

    at: float
    clock: int
    partitions: Mapping[Where, PartitionLook] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Row(NamedTuple):
    """A line of the table. Rates are per second between the two looks; None if they are not known yet.

    `oldest`, `latency`: the longest of several partitions, in seconds.
    """

    aggregate: str
    partition: int | None  # None: all of the aggregate, or with an empty aggregate all there is
    sent: float | None
    decided: float | None
    refused: float | None
    lag: int
    oldest: float | None
    latency: float | None
    owner: str


def partition_rows(before: Look | None, now: Look) -> list[Row]:
    """A row for each partition, from what changed since the look before."""
    return [
        _row(where, None if before is None else before.partitions.get(where), part, before, now)
        for where, part in now.partitions.items()
    ]


def _row(where: Where, was: PartitionLook | None, part: PartitionLook, before: Look | None, now: Look) -> Row:
    seconds = 0.0 if before is None else now.at - before.at
    sent = decided = refused = None
    if was is not None and seconds > 0:
        # A run counts from zero when it begins: what another one had counted says nothing.
        old = was.counts if was.run == part.run else {}
        sent = max(0, part.end - was.end) / seconds
        decided = max(0, sum(part.counts.values()) - sum(old.values())) / seconds
        if part.reacts:
            decided = max(0, part.position - was.position) / seconds if part.run == was.run else 0.0
        refused = max(0, _refused(part.counts) - _refused(old)) / seconds
    oldest = None if part.oldest is None or part.lag == 0 else max(0, now.clock - part.oldest) / 1000
    latency = None if part.latency is None else max(0, part.latency) / 1000
    owner = f"{part.run} (stopped)" if part.run and part.stopped else part.run or "none"
    return Row(*where, sent, decided, refused, part.lag, oldest, latency, owner)


def _refused(counts: Mapping[str, int]) -> int:
    return counts.get("rejected", 0) + counts.get("failed", 0)


def summed(rows: Iterable[Row], aggregate: str = "") -> Row:
    """Rows as one: rates and lags are added, of times it has the longest, and the owner if all have the same."""
    rows = list(rows)
    owners = sorted({row.owner for row in rows})
    return Row(
        aggregate,
        None,
        _sum(row.sent for row in rows),
        _sum(row.decided for row in rows),
        _sum(row.refused for row in rows),
        sum(row.lag for row in rows),
        max((row.oldest for row in rows if row.oldest is not None), default=None),
        max((row.latency for row in rows if row.latency is not None), default=None),
        owners[0] if len(owners) == 1 else f"{len(owners)} owners" if owners else "none",
    )


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


#: Key → what the rows are sorted by.
SORTS = {"n": "name", "l": "lag", "d": "decided", "s": "sent", "r": "refused", "o": "oldest"}


@dataclass(frozen=True, slots=True)
class View:
    """The choices made by the keys."""

    sort: str = "name"
    paused: bool = False
    folded: bool = False  # one row for each aggregate
    ended: bool = False

    def press(self, key: str) -> "View":
        """The view after a key; other keys change nothing."""
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

    def rows(self, before: Look | None, now: Look) -> list[Row]:
        """The rows to show, in order: the largest first, but for names."""
        rows = partition_rows(before, now)
        if self.folded:
            names = sorted({row.aggregate for row in rows})
            rows = [summed((row for row in rows if row.aggregate == name), name) for name in names]
        rows.sort(key=lambda row: (row.aggregate, row.partition or 0))
        if self.sort != "name":
            rows.sort(
                key=lambda row: -1.0 if (value := getattr(row, self.sort)) is None else value, reverse=True
            )
        return rows


class Reasons:
    """The reasons of the last minute, summed over all partitions of an aggregate."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, str, Mapping[str, int]]] = deque()

    def add(self, look: Look) -> None:
        """Take in a look, and drop what is older than a minute."""
        for (aggregate, _), part in look.partitions.items():
            if part.reasons:
                self._seen.append((look.at, aggregate, part.reasons))
        while self._seen and self._seen[0][0] < look.at - REASONS_FOR:
            self._seen.popleft()

    def most(self, count: int) -> list[tuple[str, str, int]]:
        """The most frequent (aggregate, reason, how often)."""
        sums: Counter[tuple[str, str]] = Counter()
        for _, aggregate, reasons in self._seen:
            for reason, times in reasons.items():
                sums[aggregate, reason] += times
        return [(*key, times) for key, times in sums.most_common(count)]
