"""A snapshot of a run: its progress so far, its lag, and the partitions that wait."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.deciding.measures import REBUILDING
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.following.processes.plan import ProcessProgress
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.partition import DECIDED, PlaceStatus, idle_places
from cqrs_cli.status.running import places_of_processes


class Rebuild(NamedTuple):
    """Shards that are being folded from their logs."""

    shards: int
    events: int
    percent: int  # of the records, outcomes included


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The progress of a run so far; `lag` is the number of undecided commands, including hidden commands."""

    at: float  # monotonic seconds
    counts: dict[Partition, Counts] = field(default_factory=dict)
    lag: int = 0
    cpu: float = 0.0  # CPU seconds of the tasks, known at the end
    lags: dict[Partition, int] = field(default_factory=dict)
    reports: dict[Partition, OwnerReport] = field(default_factory=dict)
    unowned: tuple[Partition, ...] = ()  # not claimed since the last submission of their task
    again: int = 0  # the number of resubmitted tasks
    processes: ProcessProgress | None = None  # the progress of the run's processes, if it has any

    def rebuild(self) -> Rebuild | None:
        """Return the progress of the shards that are being folded from their logs; None if there is no such shard."""
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
        """Return the partitions in which no owner decides, each with the step or reason."""
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
        """Return the names of the partitions without an owner, and of the subscriptions without an owner."""
        unheard = [] if self.processes is None else self.processes.unowned
        return [
            *(f"{name}:{number}" for name, number in self.unowned),
            *(one.place for one in sorted(unheard)),
        ]

    def places(self) -> list[PlaceStatus]:
        """Return the status of each partition that the run decides, and of each subscription of its processes."""
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
        """Return the names of the partitions without progress at present, each with the reason."""
        return idle_places(self.places())

    def total(self, name: str, aggregate: str | None = None) -> int:
        """Return a count summed over the partitions, of one aggregate or all."""
        return sum(
            getattr(c, name)
            for partition, c in self.counts.items()
            if aggregate in (None, partition.aggregate)
        )

    def summary(self) -> dict[str, Any]:
        """Return the document that `run --once` prints."""
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
