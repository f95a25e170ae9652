"""The findings of `cqrs certificate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.result import Result, first_lines
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.certify import CertificateResult


def certificate_result(
    aggregate: str, result: "CertificateResult", target: Path | None, earlier_file: Path | None
) -> Result:
    """Return the number of hashed records, and the changes.

    `target`: the written certificate. `earlier_file`: the earlier certificate, with which the topics were compared.
    """
    document: dict[str, Any] = {"aggregate": aggregate, "records": result.records}
    document["seconds"] = round(result.seconds, 3)
    lines, records = first_lines(result.changes), counted(result.records, "record")
    speed = counted(round(result.records / max(result.seconds, 0.001)), "record")
    lines.append(f"{aggregate}: {records} hashed in {result.seconds:.1f} s ({speed} a second)")
    if target is not None:
        document["certificate"] = target
        lines.append(f"certificate written to {target}")
    if earlier_file is not None:
        changes = [change.document() for change in result.changes]
        document |= {
            "against": earlier_file,
            "checked": result.checked_count,
            "deleted": result.deleted_counts,
            "changes": changes,
        }
        lines += [
            f"{topic}: {counted(count, 'record')} not compared: retention has deleted a part of their hashed range"
            for topic, count in result.deleted_counts.items()
        ]
        changes_text = counted(len(result.changes), "change") if result.changes else "no change"
        lines.append(
            f"{changes_text} since {earlier_file}: {counted(result.checked_count, 'record')} unchanged"
        )
    return Result(document, lines)
