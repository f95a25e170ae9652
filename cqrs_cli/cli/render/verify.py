"""The findings of `cqrs verify`: as JSON, and for people."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import job_text
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.driver import Verified
    from cqrs_cli.kafka.topics.topics import Kind
    from cqrs_cli.scans.verify.state import ShardComparison
    from cqrs_cli.telemetry.task_reports import JobProgress


#: Violations that are listed for people.
MOST_LINES = 10


def proving_text(aggregate: str, now: "JobProgress", bar: bool = True) -> str:
    """The part of the logs that is proved, the rate, and the time that is left at this rate."""
    return job_text(f"proving {aggregate}", now, "records", bar)


def verify_document(aggregate: str, done: "Verified") -> dict[str, Any]:
    """All counts and violations, as JSON."""
    printed: dict[str, Any] = {
        "aggregate": aggregate,
        "commands": done.total("commands"),
        "outcomes": done.total("outcomes"),
        "events": done.total("events"),
        "dead_letters": done.total("dead_letters"),
        "aggregates": done.total("aggregates"),
        "deleted": {
            "commands": done.deleted("commands"),
            "outcomes": done.deleted("outcomes"),
            "dead_letters": done.deleted("dead-letters"),
        },
        "accepted_losses": done.total("accepted"),
        "given_up": done.total("given_up"),
        "violations": [
            {"topic": found.topic, "partition": found.partition, "offset": found.offset, "what": found.what}
            for found in done.violations
        ],
        "violation_count": done.violation_count,
        "seconds": round(done.seconds, 3),
    }
    if done.earlier:
        new = {name: done.new(name) for name in ("commands", "outcomes", "events", "dead_letters")}
        printed["new"] = {**new, "violation_count": done.new("violation_count")}
        printed["proved_again"] = {str(partition): why for partition, why in done.again.items()}
    if done.compared:
        printed["compared"] = {str(partition): _compared(found) for partition, found in done.compared.items()}
    return printed


def _compared(found: "ShardComparison") -> dict[str, Any]:
    if found.skipped:
        return {"skipped": found.skipped}
    if found.behind is None:
        return {"aggregates": found.aggregates}
    offset, end = found.behind
    return {"aggregates": found.aggregates, "behind": {"offset": offset, "end": end}}


def verify_lines(aggregate: str, done: "Verified") -> list[str]:
    """All counts and violations, in lines for people."""
    said = [str(found) for found in done.violations[:MOST_LINES]]
    if (more := done.violation_count - len(said)) > 0:
        said.append(f"and {more:,} more: see -o json")
    seen = [
        counted(done.total(name), noun)
        for name, noun in (
            ("commands", "command"),
            ("outcomes", "outcome"),
            ("events", "event"),
            ("dead_letters", "dead letter"),
            ("aggregates", "aggregate"),
        )
    ]
    new = done.new("commands")
    speed = counted(round(new / max(done.seconds, 0.001)), "command")
    said.append(f"{aggregate}: {', '.join(seen)} in {done.seconds:.1f} s ({speed} a second)")
    if done.earlier:
        said.append(
            f"since the last verify: {counted(new, 'command')}, {counted(done.new('violation_count'), 'violation')}"
        )
    deleted: dict[Kind, str] = {"commands": "command", "outcomes": "outcome", "dead-letters": "dead letter"}
    gone = [counted(count, noun) for kind, noun in deleted.items() if (count := done.deleted(kind))]
    if gone:
        said.append(f"deleted by retention: {', '.join(gone)}")
    if accepted := done.total("accepted"):
        said.append(f"missing, which an operator accepted: {accepted:,}")
    if given_up := done.total("given_up"):
        said.append(f"given up unread, their bytes are not kept: {counted(given_up, 'command')}")
    if done.compared:
        whole = [found for found in done.compared.values() if not (found.skipped or found.behind)]
        count = sum(found.aggregates for found in whole)
        shards = counted(len(done.compared), "shard")
        said.append(f"{len(whole)} of {shards} compared: {counted(count, 'aggregate')}")
    for partition, found in done.compared.items():
        if found.behind is not None:
            offset, end = found.behind
            said.append(f"{partition}: behind, compared up to offset {offset:,} of {end:,}")
    said.append(violations_text(done))
    return said


def violations_text(done: "Verified") -> str:
    """Their number, in words."""
    return counted(done.violation_count, "violation") if done.violation_count else "no violation"


def nothing_compared(done: "Verified") -> bool:
    """True if shards were to be compared, and each was skipped or empty though there are events."""
    compared = done.compared.values()
    return bool(compared) and all(
        found.skipped or (found.behind is not None and found.behind[0] == 0) for found in compared
    )
