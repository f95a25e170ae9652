"""The findings of `cqrs verify --erased`."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.result import Result, first_lines
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.scans.erased.findings import ExpiringRecords
    from cqrs_cli.scans.erased.verify import ErasureReport


def erased_result(aggregate: str, report: "ErasureReport") -> Result:
    """Return the findings of erased data, and the erased data that retention or compaction will delete."""
    return Result(_document(aggregate, report), _lines(aggregate, report))


def _document(aggregate: str, report: "ErasureReport") -> dict[str, Any]:
    topics = report.topics
    return {
        "aggregate": aggregate,
        "erased": len(topics.erased),
        "violations": [
            *map(str, topics.findings),
            *map(str, report.findings),
            *map(_no_expiry_text, report.endless),
        ],
        "violation_count": report.count,
        "waiting": [
            {
                "topic": expiring.topic,
                "what": expiring.description,
                "records": expiring.records,
                "until": None if expiring.until is None or expiring.until < 0 else rfc3339(expiring.until),
            }
            for expiring in topics.expiring
        ],
        "cached_keys": dict(report.caches),
        "looked_for": report.patterns.count,
        "not_looked_for": report.patterns.too_short + topics.shared_texts,
        "looked_in": report.locations,
        "seconds": round(report.seconds, 3),
    }


def _lines(aggregate: str, report: "ErasureReport") -> list[str]:
    topics = report.topics
    lines = first_lines(
        [*topics.findings, *report.findings, *map(_no_expiry_text, report.endless)], report.count
    )
    erased_count = counted(len(topics.erased), "erased aggregate")
    lines.append(f"{aggregate}: verified {erased_count} in {report.seconds:.1f} s")
    lines += map(_expiry_text, topics.expiring)
    for folder, keys in report.caches.items():
        lines.append(
            f"the key cache {folder} has {counted(keys, 'erased key')}, until an owner of the partition starts on this"
            " machine, or the folder is removed"
        )
    if report.locations:
        skipped = report.patterns.too_short + topics.shared_texts
        exception = (
            f", except {skipped} that are too short or that other aggregates have, too" if skipped else ""
        )
        lines.append(
            f"searched for {counted(report.patterns.count, 'value')} that commands still contain{exception}, and for"
            f" keys, in: {', '.join(report.locations)}"
        )
    return [*lines, counted(report.count, "violation") if report.count else "no violation"]


def _expiry_text(expiring: "ExpiringRecords") -> str:
    """Return when the broker deletes records of erased aggregates."""
    records = f"{counted(expiring.records, 'record')} of {expiring.topic} {expiring.description}"
    if expiring.until is None:
        return f"{records}: until the topic is compacted"
    return f"{records}: " + ("for ever" if expiring.until < 0 else f"until {rfc3339(expiring.until)}")


def _no_expiry_text(topic: str) -> str:
    return f"{topic} keeps erased values for ever: set a finite retention.ms"
