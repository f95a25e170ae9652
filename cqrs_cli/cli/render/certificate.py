"""The findings of `cqrs certificate`: as JSON, and for people."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.certify import Certified

#: Changes that are listed for people.
MOST_CHANGES = 10


def certified_document(
    aggregate: str, done: "Certified", target: Path | None, against: Path | None
) -> dict[str, Any]:
    """The records that were hashed and those that have changed, as JSON."""
    document: dict[str, Any] = {
        "aggregate": aggregate,
        "records": done.records,
        "seconds": round(done.seconds, 3),
    }
    if target is not None:
        document["certificate"] = str(target)
    if against is not None:
        changes = [
            {"topic": one.topic, "partition": one.partition, "offset": one.offset, "what": one.what}
            for one in done.changes
        ]
        document |= {
            "against": str(against),
            "checked": done.checked,
            "deleted": done.deleted,
            "changes": changes,
        }
    return document


def certified_lines(
    aggregate: str, done: "Certified", target: Path | None, against: Path | None
) -> list[str]:
    """The same in lines for people."""
    lines = [str(one) for one in done.changes[:MOST_CHANGES]]
    if (more := len(done.changes) - len(lines)) > 0:
        lines.append(f"and {more:,} more: see -o json")
    speed = counted(round(done.records / max(done.seconds, 0.001)), "record")
    lines.append(
        f"{aggregate}: {counted(done.records, 'record')} hashed in {done.seconds:.1f} s ({speed} a second)"
    )
    if target is not None:
        lines.append(f"certificate written to {target}")
    if against is not None:
        for topic, count in done.deleted.items():
            lines.append(
                f"{topic}: {counted(count, 'record')} of stretches that retention has begun to delete"
            )
        found = counted(len(done.changes), "change") if done.changes else "no change"
        lines.append(f"{found} since {against}: {counted(done.checked, 'record')} as they were")
    return lines
