"""How far `cqrs replay` is, and its totals: as JSON, and for people."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import job_text
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.engine.staging import Target
    from cqrs_cli.jobs.replay.driver import Replayed
    from cqrs_cli.telemetry.task_reports import JobProgress


def replaying_text(aggregate: str, now: "JobProgress", bar: bool = True) -> str:
    """The part of the log that is done, the rate, and the time that is left at this rate."""
    return job_text(f"folding {aggregate}", now, "events", bar)


def replay_document(
    aggregate: str, until: str | Mapping[int, int] | None, done: "Replayed", target: "Target | None"
) -> dict[str, Any]:
    from cqrs_cli.core.digest import as_hex

    document: dict[str, Any] = {
        "aggregate": aggregate,
        "aggregates": done.total.aggregates,
        "events": done.total.events,
        "digest": as_hex(done.total.digest),
        "until": until,
        "seconds": round(done.seconds, 3),
    }
    if target is not None:
        document["out"] = target.folder
    return document


def replay_text(aggregate: str, done: "Replayed", target: "Target | None") -> str:
    from cqrs_cli.core.digest import as_hex

    total = done.total
    lines = [
        f"{aggregate}: {counted(total.aggregates, 'aggregate')} from {counted(total.events, 'event')} "
        f"in {done.seconds:.1f} s "
        f"({total.events / max(done.seconds, 0.001):,.0f} a second)",
        f"digest {as_hex(total.digest)}",
    ]
    if target is not None:
        lines.append(f"written to {target.folder}")
    return "\n".join(lines)
