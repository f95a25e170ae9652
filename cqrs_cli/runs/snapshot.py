"""A snapshot of a run: its progress so far, its lag, and the partitions that wait."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.deciding.measures import REBUILDING
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.following.processes.plan import ProcessProgress
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.runs.run_partitions import partition_name
from cqrs_cli.status.partition import AGGREGATE, PartitionStatus, idle_partitions
from cqrs_cli.status.running import process_statuses


class Rebuild(NamedTuple):
    """The progress of the shards that are being folded from their logs."""

    shards: int  # number of these shards
    events: int  # number of their events
    percent: int  # percentage of their records (events and outcomes) that are folded


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The progress of a run so far."""

    polled_at: float  # time of the poll, monotonic seconds
    counts: dict[Partition, Counts] = field(default_factory=dict)  # decisions of this run in each partition
    lag: int = 0  # number of undecided commands, including commands that a client's open transaction hides
    cpu_seconds: float = 0.0  # CPU seconds of the tasks; 0 until the run ends
    lags: dict[Partition, int] = field(default_factory=dict)  # `lag` of each partition
    reports: dict[Partition, OwnerReport] = field(default_factory=dict)  # latest report of each owner
    silent: frozenset[Partition] = frozenset()  # partitions whose owner has stopped sending reports
    unowned: tuple[Partition, ...] = ()  # partitions that no owner has claimed since their task was submitted
    resubmissions: int = 0  # number of resubmitted tasks
    #: The progress of the run's process managers; None without any.
    process_progress: ProcessProgress | None = None

    def rebuild_progress(self) -> Rebuild | None:
        """Return the progress of the shards that are being folded from their logs; None if there is no such shard."""
        foldings = [
            report.folding
            for report in self.reports.values()
            if report.step in REBUILDING and report.folding and report.folding.done < report.folding.records
        ]
        if not foldings:
            return None
        folded_records = sum(folding.done for folding in foldings)
        records = sum(folding.records for folding in foldings)
        return Rebuild(
            len(foldings), sum(folding.events for folding in foldings), 100 * folded_records // records
        )

    def waiting_partitions(self) -> dict[Partition, str]:
        """Return partition → step of its owner, or another reason, for the partitions in which no owner decides."""
        reasons = dict.fromkeys(self.unowned, "no owner")
        for partition in self.lags:
            report = self.reports.get(partition)
            if report is None or partition in self.silent:
                reasons.setdefault(partition, "no report from its owner")
            elif report.step != "decide":
                reasons[partition] = report.step
        return dict(sorted(reasons.items()))

    def is_standby(self) -> bool:
        """True if some partitions have no owner that decides, and all of them wait for another run to end."""
        steps = set(self.waiting_partitions().values())
        return steps == {"standby"}

    def unowned_names(self) -> list[str]:
        """Return the names of the partitions and subscriptions without an owner."""
        subscriptions = [] if self.process_progress is None else self.process_progress.unowned
        return [
            *map(partition_name, self.unowned),
            *map(partition_name, sorted(subscriptions)),
        ]

    def partition_statuses(self) -> list[PartitionStatus]:
        """Return the status of each partition of the run's aggregates, and of each subscription."""
        waiting = self.waiting_partitions()
        statuses = [
            PartitionStatus(
                AGGREGATE,
                partition.aggregate,
                partition.aggregate,
                "",
                partition.number,
                lag=self.lags.get(partition),
                is_owned=partition not in self.unowned if partition in self.lags else None,
                idle_reason=waiting.get(partition, ""),
                counts=self.counts.get(partition),
            )
            for partition in sorted({*self.counts, *self.lags, *waiting})
        ]
        return [*statuses, *process_statuses(self.process_progress)]

    def waiting_by_name(self) -> dict[str, str]:
        """Return partition name → reason, for the partitions without progress at present."""
        return idle_partitions(self.partition_statuses())

    def total(self, name: str, aggregate: str | None = None) -> int:
        """Return the sum of a count over the partitions of one aggregate, or of all. `name`: a field of `Counts`."""
        return sum(
            getattr(counts, name)
            for partition, counts in self.counts.items()
            if aggregate in (None, partition.aggregate)
        )

    def summary(self) -> dict[str, Any]:
        """Return the document that `run --once` prints."""
        names = sorted({name for name, _ in self.counts})
        sums = {**self._sums(None), "cpu_seconds": round(self.cpu_seconds, 3)}
        document = {**sums, "aggregates": {name: self._sums(name) for name in names}}
        return document if self.process_progress is None else document | self.process_progress.summary()

    def _sums(self, aggregate: str | None) -> dict[str, Any]:
        counts = [
            partition_counts
            for partition, partition_counts in self.counts.items()
            if aggregate in (None, partition.aggregate) and partition_counts.commands
        ]
        first_commit = min((partition_counts.first for partition_counts in counts), default=0)
        last_commit = max((partition_counts.last for partition_counts in counts), default=0)
        sums = {name: self.total(name, aggregate) for name in ("commands", *STATUSES, "events")}
        return {**sums, "seconds": round((last_commit - first_commit) / 1000, 3)}
