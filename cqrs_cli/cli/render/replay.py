"""The progress and the result of `cqrs replay`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import job_progress_text
from cqrs_cli.cli.result import Result
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.engine.staging import Target
    from cqrs_cli.jobs.replay.driver import ReplaySummary
    from cqrs_cli.telemetry.task_reports import JobProgress


def replaying_text(aggregate: str, progress: "JobProgress", with_bar: bool = True) -> str:
    """Return the part of the log that is done, the rate, and the remaining time at this rate."""
    return job_progress_text(f"folding {aggregate}", progress, "events", with_bar)


def replay_result(
    aggregate: str, at: str | Mapping[int, int] | None, summary: "ReplaySummary", target: "Target | None"
) -> Result:
    """Return the result of a replay. `at`: the time or the offsets up to which events were folded; None for all."""
    from cqrs_cli.core.digest import as_hex

    total, digest = summary.total, as_hex(summary.total.digest)
    document: dict[str, Any] = {
        "aggregate": aggregate,
        "aggregates": total.aggregates,
        "events": total.events,
        "digest": digest,
        "at": at,
        "seconds": round(summary.seconds, 3),
    }
    speed = f"{total.events / max(summary.seconds, 0.001):,.0f} a second"
    counts = f"{counted(total.aggregates, 'aggregate')} from {counted(total.events, 'event')}"
    lines = [f"{aggregate}: {counts} in {summary.seconds:.1f} s ({speed})", f"digest {digest}"]
    if target is not None:
        document["out"] = target.folder
        lines.append(f"written to {target.folder}")
    return Result(document, lines)
