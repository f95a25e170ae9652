"""The progress and the findings of `cqrs verify`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import job_progress_text
from cqrs_cli.cli.result import Result, first_lines
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.driver import VerifySummary
    from cqrs_cli.kafka.topics.topics import Kind
    from cqrs_cli.scans.verify.state import ShardComparison
    from cqrs_cli.telemetry.task_reports import JobProgress

#: Name of a count → its noun in the singular.
_COUNTS = {
    "commands": "command",
    "outcomes": "outcome",
    "events": "event",
    "dead_letters": "dead letter",
    "aggregates": "aggregate",
}

#: Each topic with a retention time → the noun for its records, in the singular.
_DELETED_BY_RETENTION: "Mapping[Kind, str]" = {
    "commands": "command",
    "outcomes": "outcome",
    "dead-letters": "dead letter",
}


def verifying_text(aggregate: str, progress: "JobProgress", with_bar: bool = True) -> str:
    """Return the progress as text: the verified part of the logs, the rate, and the remaining time at this rate."""
    return job_progress_text(f"verifying {aggregate}", progress, "records", with_bar)


def verify_result(aggregate: str, summary: "VerifySummary") -> Result:
    """Return all counts and violations."""
    return Result(_document(aggregate, summary), _lines(aggregate, summary))


def _document(aggregate: str, summary: "VerifySummary") -> dict[str, Any]:
    document: dict[str, Any] = {
        "aggregate": aggregate,
        **{name: summary.total(name) for name in _COUNTS},
        "deleted": {kind.replace("-", "_"): summary.deleted_total(kind) for kind in _DELETED_BY_RETENTION},
        "accepted_losses": summary.total("accepted_losses"),
        "given_up": summary.total("given_up"),
        "violations": [violation.document() for violation in summary.violations],
        "violation_count": summary.violation_count,
        "seconds": round(summary.seconds, 3),
    }
    if summary.earlier_reports:
        names = ("commands", "outcomes", "events", "dead_letters", "violation_count")
        document["new"] = {name: summary.new_total(name) for name in names}
        document["proved_again"] = {
            str(partition): reason for partition, reason in summary.restart_reasons.items()
        }
    if summary.comparisons:
        document["compared"] = {
            str(partition): _comparison_document(comparison)
            for partition, comparison in summary.comparisons.items()
        }
    return document


def _comparison_document(comparison: "ShardComparison") -> dict[str, Any]:
    if comparison.skip_reason:
        return {"skipped": comparison.skip_reason}
    document: dict[str, Any] = {"aggregates": comparison.aggregates}
    if comparison.behind is not None:
        offset, end = comparison.behind
        document["behind"] = {"offset": offset, "end": end}
    return document


def _lines(aggregate: str, summary: "VerifySummary") -> list[str]:
    lines = first_lines(summary.violations, summary.violation_count)
    counts = ", ".join(counted(summary.total(name), noun) for name, noun in _COUNTS.items())
    new_commands = summary.new_total("commands")
    speed = counted(round(new_commands / max(summary.seconds, 0.001)), "command")
    lines.append(f"{aggregate}: {counts} in {summary.seconds:.1f} s ({speed} a second)")
    if summary.earlier_reports:
        violations = counted(summary.new_total("violation_count"), "violation")
        lines.append(f"since the last verify: {counted(new_commands, 'command')}, {violations}")
    deleted_counts = [
        counted(count, noun)
        for kind, noun in _DELETED_BY_RETENTION.items()
        if (count := summary.deleted_total(kind))
    ]
    if deleted_counts:
        lines.append(f"deleted by retention: {', '.join(deleted_counts)}")
    if accepted_losses := summary.total("accepted_losses"):
        lines.append(f"losses that an operator accepted: {accepted_losses:,}")
    if given_up := summary.total("given_up"):
        lines.append(f"given up unread, their bytes are not kept: {counted(given_up, 'command')}")
    if summary.comparisons:
        complete_comparisons = [
            comparison
            for comparison in summary.comparisons.values()
            if not (comparison.skip_reason or comparison.behind)
        ]
        aggregates = counted(sum(comparison.aggregates for comparison in complete_comparisons), "aggregate")
        lines.append(
            f"{len(complete_comparisons)} of {counted(len(summary.comparisons), 'shard')} compared: {aggregates}"
        )
    for partition, comparison in summary.comparisons.items():
        if comparison.behind is not None:
            offset, end = comparison.behind
            lines.append(
                f"partition {partition}: the shard lags, compared up to offset {offset:,} of {end:,}"
            )
    return [*lines, violations_text(summary.violation_count)]


def violations_text(count: int) -> str:
    """Return the number of violations, in words."""
    return counted(count, "violation") if count else "no violation"


def nothing_compared(summary: "VerifySummary") -> bool:
    """True if --state was given, but each shard was skipped or is empty although there are events."""
    comparisons = summary.comparisons.values()
    return bool(comparisons) and all(
        comparison.skip_reason or (comparison.behind is not None and comparison.behind[0] == 0)
        for comparison in comparisons
    )
