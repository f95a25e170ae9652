"""The findings of `cqrs certificate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.result import Result, listed
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.certify import CertificateResult


def certified(aggregate: str, done: "CertificateResult", target: Path | None, against: Path | None) -> Result:
    """Return the number of hashed records, and the changed records."""
    document: dict[str, Any] = {"aggregate": aggregate, "records": done.records}
    document["seconds"] = round(done.seconds, 3)
    lines, records = listed(done.changes), counted(done.records, "record")
    speed = counted(round(done.records / max(done.seconds, 0.001)), "record")
    lines.append(f"{aggregate}: {records} hashed in {done.seconds:.1f} s ({speed} a second)")
    if target is not None:
        document["certificate"] = target
        lines.append(f"certificate written to {target}")
    if against is not None:
        changes = [one.document() for one in done.changes]
        document |= {"against": against, "checked": done.checked, "deleted": done.deleted, "changes": changes}
        lines += [
            f"{topic}: {counted(count, 'record')} of stretches that retention has begun to delete"
            for topic, count in done.deleted.items()
        ]
        found = counted(len(done.changes), "change") if done.changes else "no change"
        lines.append(f"{found} since {against}: {counted(done.checked, 'record')} as they were")
    return Result(document, lines)
