"""The progress and the findings of `cqrs verify`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import job_text
from cqrs_cli.cli.result import Result, listed
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.driver import VerifySummary
    from cqrs_cli.kafka.topics.topics import Kind
    from cqrs_cli.scans.verify.state import ShardComparison
    from cqrs_cli.telemetry.task_reports import JobProgress

#: The counts, each with its noun in the singular.
_COUNTS = {
    "commands": "command",
    "outcomes": "outcome",
    "events": "event",
    "dead_letters": "dead letter",
    "aggregates": "aggregate",
}

#: The topics whose records retention deletes.
_KEPT: "Mapping[Kind, str]" = {"commands": "command", "outcomes": "outcome", "dead-letters": "dead letter"}


def proving_text(aggregate: str, now: "JobProgress", bar: bool = True) -> str:
    """Return the part of the logs that is verified, the rate, and the remaining time at this rate."""
    return job_text(f"proving {aggregate}", now, "records", bar)


def verified(aggregate: str, done: "VerifySummary") -> Result:
    """Return all counts and violations."""
    return Result(_document(aggregate, done), _lines(aggregate, done))


def _document(aggregate: str, done: "VerifySummary") -> dict[str, Any]:
    printed: dict[str, Any] = {
        "aggregate": aggregate,
        **{name: done.total(name) for name in _COUNTS},
        "deleted": {kind.replace("-", "_"): done.deleted(kind) for kind in _KEPT},
        "accepted_losses": done.total("accepted"),
        "given_up": done.total("given_up"),
        "violations": [found.document() for found in done.violations],
        "violation_count": done.violation_count,
        "seconds": round(done.seconds, 3),
    }
    if done.earlier:
        new = ("commands", "outcomes", "events", "dead_letters", "violation_count")
        printed["new"] = {name: done.new(name) for name in new}
        printed["proved_again"] = {str(partition): why for partition, why in done.again.items()}
    if done.compared:
        printed["compared"] = {str(partition): _compared(found) for partition, found in done.compared.items()}
    return printed


def _compared(found: "ShardComparison") -> dict[str, Any]:
    if found.skipped:
        return {"skipped": found.skipped}
    behind = (
        {} if found.behind is None else {"behind": dict(zip(("offset", "end"), found.behind, strict=True))}
    )
    return {"aggregates": found.aggregates, **behind}


def _lines(aggregate: str, done: "VerifySummary") -> list[str]:
    said = listed(done.violations, done.violation_count)
    seen = ", ".join(counted(done.total(name), noun) for name, noun in _COUNTS.items())
    new = done.new("commands")
    speed = counted(round(new / max(done.seconds, 0.001)), "command")
    said.append(f"{aggregate}: {seen} in {done.seconds:.1f} s ({speed} a second)")
    if done.earlier:
        violations = counted(done.new("violation_count"), "violation")
        said.append(f"since the last verify: {counted(new, 'command')}, {violations}")
    gone = [counted(count, noun) for kind, noun in _KEPT.items() if (count := done.deleted(kind))]
    if gone:
        said.append(f"deleted by retention: {', '.join(gone)}")
    if accepted := done.total("accepted"):
        said.append(f"missing, which an operator accepted: {accepted:,}")
    if given_up := done.total("given_up"):
        said.append(f"given up unread, their bytes are not kept: {counted(given_up, 'command')}")
    if done.compared:
        whole = [found for found in done.compared.values() if not (found.skipped or found.behind)]
        same = counted(sum(found.aggregates for found in whole), "aggregate")
        said.append(f"{len(whole)} of {counted(len(done.compared), 'shard')} compared: {same}")
    for partition, found in done.compared.items():
        if found.behind is not None:
            offset, end = found.behind
            said.append(f"{partition}: behind, compared up to offset {offset:,} of {end:,}")
    return [*said, violations_text(done.violation_count)]


def violations_text(count: int) -> str:
    """Return the number of violations, in words."""
    return counted(count, "violation") if count else "no violation"


def nothing_compared(done: "VerifySummary") -> bool:
    """True if shards were to be compared, and each was skipped or empty although there are events."""
    compared = done.compared.values()
    return bool(compared) and all(
        found.skipped or (found.behind is not None and found.behind[0] == 0) for found in compared
    )
