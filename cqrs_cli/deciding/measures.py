"""The measures of one partition: a listener collects them from the owners, and a thread of the task reads them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.observer import Listener
from cqrs_cli.telemetry.histogram import BATCH_BOUNDS, LATENCY_BOUNDS, Histogram

#: The steps of the owner protocol, and the states around them: `open` the shard, `restore` it from a checkpoint,
#: `pause` after an error, the last `checkpoint`, `ended`. In a repartitioning, a child has to `wait` for its parent's
#: split and then to `adopt` deferred commands; before its split, the parent has to `settle` (decide) earlier commands.
STEPS = (
    "open",
    "restore",
    "warm",
    "standby",
    "fence",
    "claim",
    "position",
    "wait",
    "recover",
    "adopt",
    "settle",
    "decide",
    "pause",
    "checkpoint",
    "ended",
)

#: Steps in which a shard may be built, which takes as long as its data or log requires.
REBUILDING = ("restore", "warm", "recover")


class FoldProgress(NamedTuple):
    """The progress of folding a shard. Sample: `FoldProgress(events=1000, done=250, records=2000)`"""

    events: int  # the number of events to fold
    done: int  # the number of records that are folded
    records: int  # the number of records to fold: events and outcomes


#: The counters of an owner → the help text of the metric `cqrs_…`. A new counter needs a line here, and code that
#: increments it.
COUNTERS = {
    "transactions_aborted": "Transactions begun and not known to be committed.",
    "owner_restarts": "Owners that started again after an error.",
    "spans_dropped": "Spans for OpenTelemetry that were lost.",
}


class Measures:
    """The measures of one partition since the task began.

    The thread that reads them may see values of two batches at once; the next read corrects this.
    """

    def __init__(self) -> None:
        self.step = "open"  # one of `STEPS`
        self.folding: FoldProgress | None = None
        #: Seconds from the append of a command to the commit of its outcome.
        self.latency = Histogram(LATENCY_BOUNDS)
        self.batches = Histogram(BATCH_BOUNDS)  # commands in a batch
        self.reasons: dict[str, int] = {}  # reason → commands that were deferred, rejected or failed for it
        self.counts = dict.fromkeys(COUNTERS, 0)  # counter → its value
        self._fold_start = (0, 0)  # the offsets of events and outcomes at which the fold began
        self.listener: Listener = {
            "owner.step": self.enter_step,
            "owner.restarting": self.count_restart,
            "owner.ended": partial(self.enter_step, "ended"),
            "fold.before": self.fold_from,
            "fold.portion": self.record_folded,
            "batch.after": self.record_commit,
            "batch.aborted": self.count_abort,
            "spans.dropped": self.count_dropped_spans,
        }

    def enter_step(self, step: str) -> None:
        """Record the step that begins."""
        self.step, self.folding = step, None

    def count_restart(self) -> None:
        """Record that an owner has ended, and that another owner is to start."""
        self.counts["owner_restarts"] += 1
        self.enter_step("pause")

    def count_abort(self) -> None:
        """Record that a transaction is not known to be committed."""
        self.counts["transactions_aborted"] += 1

    def count_dropped_spans(self, count: int) -> None:
        """Record that spans are lost."""
        self.counts["spans_dropped"] += count

    def fold_from(self, events: tuple[int, int], outcomes: tuple[int, int]) -> None:
        """Record that logs are folded between these (start, end) positions."""
        record_counts = [max(0, end - start) for start, end in (events, outcomes)]
        self._fold_start = events[0], outcomes[0]
        self.folding = FoldProgress(record_counts[0], 0, sum(record_counts))

    def record_folded(self, events: int, outcomes: int) -> None:
        """Record the positions up to which both logs are folded."""
        if self.folding is not None:
            done = max(0, events - self._fold_start[0]) + max(0, outcomes - self._fold_start[1])
            self.folding = self.folding._replace(done=min(done, self.folding.records))

    def record_commit(self, records: Sequence[Record], now: int, reasons: Mapping[str, int]) -> None:
        """Count a batch of these commands that was committed at the time `now` (ms)."""
        self.latency.add_ages(records, now)
        self.batches.add(len(records))
        for reason, count in reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
