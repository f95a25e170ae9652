"""The findings of `cqrs verify --erased`."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.result import Result, first_lines
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.scans.erased.findings import RemainingRecords
    from cqrs_cli.scans.erased.verify import ErasureReport


def erased_result(aggregate: str, report: "ErasureReport") -> Result:
    """Return the findings of erased data, and the erased data that retention or compaction will delete."""
    return Result(_document(aggregate, report), _lines(aggregate, report))


def _document(aggregate: str, report: "ErasureReport") -> dict[str, Any]:
    topic_search = report.topic_search
    return {
        "aggregate": aggregate,
        "erased": len(topic_search.erased),
        "violations": [
            *map(str, topic_search.findings),
            *map(str, report.file_findings),
            *map(_no_expiry_text, report.permanent_topics),
        ],
        "violation_count": report.violation_count,
        "waiting": [
            {
                "topic": remaining.topic,
                "what": remaining.description,
                "records": remaining.record_count,
                "until": _deletion_time(remaining.deletion_deadline),
            }
            for remaining in topic_search.remaining_records
        ],
        "cached_keys": dict(report.deleted_key_counts),
        "looked_for": report.patterns.count,
        "not_looked_for": report.patterns.too_short_count + topic_search.shared_text_count,
        "looked_in": report.locations,
        "seconds": round(report.seconds, 3),
    }


def _deletion_time(deletion_deadline: int | None) -> str | None:
    return None if deletion_deadline is None or deletion_deadline < 0 else rfc3339(deletion_deadline)


def _lines(aggregate: str, report: "ErasureReport") -> list[str]:
    topic_search = report.topic_search
    lines = first_lines(
        [*topic_search.findings, *report.file_findings, *map(_no_expiry_text, report.permanent_topics)],
        report.violation_count,
    )
    erased_count = counted(len(topic_search.erased), "erased aggregate")
    lines.append(f"{aggregate}: verified {erased_count} in {report.seconds:.1f} s")
    lines += map(_expiry_text, topic_search.remaining_records)
    for folder, key_count in report.deleted_key_counts.items():
        lines.append(
            f"the key cache {folder} has {counted(key_count, 'erased key')}, until an owner of the partition starts on"
            " this machine, or the folder is removed"
        )
    if report.locations:
        skipped = report.patterns.too_short_count + topic_search.shared_text_count
        exception = (
            f", except {skipped} that are too short or that other aggregates have, too" if skipped else ""
        )
        lines.append(
            f"searched for {counted(report.patterns.count, 'value')} that commands still contain{exception}, and for"
            f" keys, in: {', '.join(report.locations)}"
        )
    lines.append(counted(report.violation_count, "violation") if report.violation_count else "no violation")
    return lines


def _expiry_text(remaining: "RemainingRecords") -> str:
    """Return when the broker deletes records of erased aggregates."""
    records = f"{counted(remaining.record_count, 'record')} of {remaining.topic} {remaining.description}"
    if remaining.deletion_deadline is None:
        return f"{records}: until the topic is compacted"
    return f"{records}: " + (
        "for ever" if remaining.deletion_deadline < 0 else f"until {rfc3339(remaining.deletion_deadline)}"
    )


def _no_expiry_text(topic: str) -> str:
    return f"{topic} keeps erased values for ever: set a finite retention.ms"
