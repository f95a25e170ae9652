"""A look at a run: what was decided and reacted to so far, what is left, and who waits."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.deciding.measures import REBUILDING
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.following.processes.plan import ProcessProgress
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.place import DECIDED, PlaceStatus, idle_places
from cqrs_cli.status.running import places_of_processes


class Rebuild(NamedTuple):
    """Shards that are folded from their logs now."""

    shards: int
    events: int
    percent: int  # of the records, with outcomes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The decisions of a run so far; `lag` counts commands that are not decided, hidden ones too."""

    at: float  # monotonic seconds
    counts: dict[Partition, Counts] = field(default_factory=dict)
    lag: int = 0
    cpu: float = 0.0  # seconds that the tasks took, known at the end
    lags: dict[Partition, int] = field(default_factory=dict)
    reports: dict[Partition, OwnerReport] = field(default_factory=dict)
    unowned: tuple[Partition, ...] = ()  # not claimed since their task was submitted
    again: int = 0  # tasks that were submitted again
    processes: ProcessProgress | None = None  # of the run's processes, if it has any

    def rebuild(self) -> Rebuild | None:
        """The shards that are folded from their logs now; None if no shard is."""
        found = [
            report.folding
            for report in self.reports.values()
            if report.step in REBUILDING and report.folding and report.folding.done < report.folding.records
        ]
        if not found:
            return None
        done, records = sum(one.done for one in found), sum(one.records for one in found)
        return Rebuild(len(found), sum(one.events for one in found), 100 * done // records)

    def waiting(self) -> dict[Partition, str]:
        """The partitions in which no owner decides, and what each waits for."""
        found = dict.fromkeys(self.unowned, "no owner")
        for partition in self.lags:
            report = self.reports.get(partition)
            if report is None:
                found.setdefault(partition, "no word from its owner")
            elif report.step != "decide":
                found[partition] = report.step
        return dict(sorted(found.items()))

    def standing_by(self) -> bool:
        """True if partitions are not decided, and each of them waits for another run to end."""
        steps = set(self.waiting().values())
        return steps == {"standby"}

    def unowned_places(self) -> list[str]:
        """The partitions that nobody owns, by name, and those that nobody hears for a process of the run."""
        unheard = [] if self.processes is None else self.processes.unowned
        return [
            *(f"{name}:{number}" for name, number in self.unowned),
            *(one.place for one in sorted(unheard)),
        ]

    def places(self) -> list[PlaceStatus]:
        """The status of each partition that the run decides, and of each that its processes hear."""
        waiting = self.waiting()
        decided = [
            PlaceStatus(
                DECIDED,
                partition.aggregate,
                partition.aggregate,
                "",
                partition.number,
                lag=self.lags.get(partition),
                owned=partition not in self.unowned if partition in self.lags else None,
                idle=waiting.get(partition, ""),
                counts=self.counts.get(partition),
            )
            for partition in sorted({*self.counts, *self.lags, *waiting})
        ]
        return [*decided, *places_of_processes(self.processes)]

    def waiting_places(self) -> dict[str, str]:
        """The partitions in which nothing is done now, by name, and the reason of each."""
        return idle_places(self.places())

    def total(self, name: str, aggregate: str | None = None) -> int:
        """A count summed over the partitions, of one aggregate or all."""
        return sum(
            getattr(c, name)
            for partition, c in self.counts.items()
            if aggregate in (None, partition.aggregate)
        )

    def summary(self) -> dict[str, Any]:
        """The document that `run --once` prints."""
        names = sorted({name for name, _ in self.counts})
        sums = {**self._sums(None), "cpu_seconds": round(self.cpu, 3)}
        document = {**sums, "aggregates": {name: self._sums(name) for name in names}}
        return document if self.processes is None else document | self.processes.summary()

    def _sums(self, aggregate: str | None) -> dict[str, Any]:
        counts = [
            c
            for partition, c in self.counts.items()
            if aggregate in (None, partition.aggregate) and c.commands
        ]
        first, last = min((c.first for c in counts), default=0), max((c.last for c in counts), default=0)
        sums = {name: self.total(name, aggregate) for name in ("commands", *STATUSES, "events")}
        return {**sums, "seconds": round((last - first) / 1000, 3)}
