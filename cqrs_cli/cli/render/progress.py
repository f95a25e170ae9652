"""The progress and the result of a run."""

import time
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import PLAIN_INTERVAL
from cqrs_cli.cli.render.display import JobDisplay
from cqrs_cli.cli.render.process import process_result_text, processes_started_note
from cqrs_cli.cli.result import Result
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.runs.snapshot import Rebuild, Snapshot

#: The statuses that a line of text contains only if their count is not 0.
_RARE_STATUSES = ("unchanged", "deferred")

#: Seconds between two JSON Lines; a line is written only if it differs from the previous line.
STREAM_INTERVAL = 1.0


class RunDisplay(JobDisplay["Snapshot"]):
    """Shows snapshots of a run."""

    def __init__(self, cli: Cli, metrics: tuple[str, int] | None = None, decides: bool = True) -> None:
        """`metrics`: host and port of the metrics endpoint. `decides`: False for a run of process managers only."""
        from cqrs_cli.runs.metrics import Metrics

        super().__init__(cli, None if metrics is None else (metrics, Metrics()))
        self.interval = STREAM_INTERVAL if cli.streaming else PLAIN_INTERVAL
        self.started_at, self._decides = time.monotonic(), decides
        self._is_listening = False  # True once the note was printed that all process managers are subscribed
        self._largest_rebuild: Rebuild | None = None  # the current rebuild, with the most events so far

    def processed_count(self, snapshot: "Snapshot") -> int:
        if self._decides or snapshot.process_progress is None:
            return snapshot.total("commands")
        return snapshot.process_progress.position

    def progress_line(self, snapshot: "Snapshot") -> str:
        return progress_line(snapshot, self.rate) if self._decides else reaction_line(snapshot, self.rate)

    def print_line(self, snapshot: "Snapshot") -> None:
        if not self.cli.streaming:
            super().print_line(snapshot)
        elif not self.cli.quiet:
            self.cli.print_event("progress", progress_document(snapshot, self.rate))

    def print_once(self, snapshot: "Snapshot") -> None:
        """Print once that a displayed rebuild has ended, and once that the process managers are subscribed."""
        rebuild, largest_rebuild = snapshot.rebuild_progress(), self._largest_rebuild
        if rebuild is None and largest_rebuild is not None:
            self._largest_rebuild = None
            self.cli.print_note(f"rebuilt {_rebuild_text(largest_rebuild)}")
        elif rebuild is not None and (largest_rebuild is None or rebuild.events > largest_rebuild.events):
            self._largest_rebuild = rebuild
        if (
            snapshot.process_progress is not None
            and snapshot.process_progress.is_listening
            and not self._is_listening
        ):
            self._is_listening = True
            self.cli.print_note(processes_started_note(snapshot.process_progress))

    def has_content(self, snapshot: "Snapshot") -> bool:
        """True if JSON Lines are streamed, or once the run decides, rebuilds, or has subscribed process managers."""
        if self.cli.streaming:
            return True
        if not self._decides:
            return snapshot.process_progress is not None and snapshot.process_progress.is_listening
        return snapshot.total("commands") > 0 or snapshot.rebuild_progress() is not None

    def shown_values(self, snapshot: "Snapshot") -> tuple[object, ...]:
        """Return what a line shows, except the speed: a change of the speed alone causes no new line."""
        # A plain line does not contain the waiting partitions
        waiting_partitions = snapshot.waiting_partitions() if self.cli.streaming else None
        progress = snapshot.process_progress
        process_values = None if progress is None else (progress.position, progress.lag)
        return (
            snapshot.total("commands"),
            snapshot.lag,
            snapshot.rebuild_progress(),
            waiting_partitions,
            process_values,
        )


def progress_line(snapshot: "Snapshot", rate: float) -> str:
    """Return one line: a rebuild if there is one, speed, lag, and the number of outcomes by status."""
    rebuild = snapshot.rebuild_progress()
    rebuilding = "" if rebuild is None else f"rebuilding {_rebuild_text(rebuild)}, {rebuild.percent} %"
    if rebuilding and not snapshot.total("commands"):
        return rebuilding
    totals = {name: snapshot.total(name) for name in STATUSES}
    counts = " · ".join(
        f"{name} {count:,}" for name, count in totals.items() if count or name not in _RARE_STATUSES
    )
    speed = f"{rate:,.0f} commands/s · lag {snapshot.lag:,} · {counts}"
    if snapshot.process_progress is not None:
        speed += "".join(f" · {name} lag {lag:,}" for name, lag in snapshot.process_progress.lags().items())
    return f"{rebuilding} · {speed}" if rebuilding else speed


def reaction_line(snapshot: "Snapshot", rate: float) -> str:
    """Return the line of a run without aggregates: its speed, and the lag of each process manager."""
    lags = {} if snapshot.process_progress is None else snapshot.process_progress.lags()
    return " · ".join([f"{rate:,.0f} records/s", *(f"{name} lag {lag:,}" for name, lag in lags.items())])


def _rebuild_text(rebuild: "Rebuild") -> str:
    return f"{counted(rebuild.shards, 'shard')} from {counted(rebuild.events, 'event')}"


def progress_document(snapshot: "Snapshot", rate: float) -> dict[str, Any]:
    """Return the progress for programs, with a part for each aggregate."""
    rebuild = snapshot.rebuild_progress()
    aggregates = sorted({name for name, _ in [*snapshot.counts, *snapshot.lags]})
    process_part = (
        {} if snapshot.process_progress is None else {"processes": snapshot.process_progress.by_process()}
    )
    return {
        **_sums(snapshot, None),
        "lag": snapshot.lag,
        "per_second": round(rate, 1),
        "rebuilding": None if rebuild is None else rebuild._asdict(),
        "waiting": snapshot.waiting_by_name(),
        "aggregates": {
            name: {
                **_sums(snapshot, name),
                "lag": sum(lag for partition, lag in snapshot.lags.items() if partition.aggregate == name),
            }
            for name in aggregates
        },
        **process_part,
    }


def _sums(snapshot: "Snapshot", aggregate: str | None) -> dict[str, int]:
    return {name: snapshot.total(name, aggregate) for name in ("commands", *STATUSES, "events")}


def run_result(snapshot: "Snapshot") -> Result:
    """Return the decisions of a run, and the reactions of its processes.

    The seconds in the result are counted from the first commit to the last, because a run may also wait.
    """
    summary, texts = snapshot.summary(), []
    if snapshot.counts or snapshot.lags or snapshot.process_progress is None:
        parts = ", ".join(f"{summary[name]:,} {name}" for name in STATUSES if summary[name])
        commands, events = counted(summary["commands"], "command"), counted(summary["events"], "event")
        details = f" within {summary['seconds']:g} s: {parts}; {events}" if parts else ""
        texts.append(f"{commands} decided{details}")
    if snapshot.process_progress is not None:
        texts.append(
            f"{', '.join(snapshot.process_progress.lags())}: {process_result_text(snapshot.process_progress)}"
        )
    return Result(summary, "; ".join(texts))
