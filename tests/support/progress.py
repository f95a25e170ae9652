"""The progress of a run, as its screens and its metrics receive it."""

from cqrs_cli.deciding.measures import FoldProgress
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.following.processes.plan import ProcessProgress, Subscription
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.telemetry.histogram import BATCH_BOUNDS, LATENCY_BOUNDS, Histogram


def snapshot(time: float, decided: int, lag: int = 0) -> Snapshot:
    return Snapshot(time, {Partition("counter", 0): Counts(accepted=decided)}, lag)


PARTITION = Partition("counter", 1)


def owner_report(step: str = "decide", folding: FoldProgress | None = None) -> OwnerReport:
    latency, batches = Histogram(LATENCY_BOUNDS), Histogram(BATCH_BOUNDS)
    for seconds in (0.001, 0.02, 7200.0):
        latency.add(seconds)
    batches.add(3)
    return OwnerReport(
        *PARTITION,
        0,
        0,
        1,
        step,
        folding,
        {"EXPIRED": 2},
        (latency.counts, latency.total),
        (batches.counts, batches.total),
        counts={"transactions_aborted": 4, "owner_restarts": 5},
        shard_bytes=4096,
    )


def run_snapshot(report: OwnerReport, unowned: tuple[Partition, ...] = ()) -> Snapshot:
    counts = {PARTITION: Counts(accepted=3, rejected=2, events=6)}
    return Snapshot(
        0.0, counts, 7, lags={PARTITION: 7}, reports={PARTITION: report}, unowned=unowned, resubmissions=2
    )


def process_progress(claimed: bool = True) -> ProcessProgress:
    """Return the progress of a process manager with 5 unread events."""
    subscription = Subscription("checkout", EventPartition("order", "order.events", 0))
    return ProcessProgress(
        0.0, {subscription: 95}, {subscription: 100}, claimed=frozenset({subscription} if claimed else ())
    )
