"""The findings of `cqrs verify --erased`."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.result import Result, listed
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.scans.erased.findings import ExpiringRecords
    from cqrs_cli.scans.erased.verify import ErasureReport


def proved_erased(aggregate: str, done: "ErasureReport") -> Result:
    """Return the findings of erased data, and the erased data that waits for retention or compaction."""
    return Result(_document(aggregate, done), _lines(aggregate, done))


def _document(aggregate: str, done: "ErasureReport") -> dict[str, Any]:
    look = done.topics
    return {
        "aggregate": aggregate,
        "erased": len(look.erased),
        "violations": [*map(str, look.findings), *map(str, done.findings), *map(_endless, done.endless)],
        "violation_count": done.count,
        "waiting": [
            {
                "topic": one.topic,
                "what": one.what,
                "records": one.records,
                "until": None if one.until is None or one.until < 0 else rfc3339(one.until),
            }
            for one in look.waiting
        ],
        "cached_keys": dict(done.caches),
        "looked_for": done.patterns.count,
        "not_looked_for": done.patterns.too_short + look.shared,
        "looked_in": done.locations,
        "seconds": round(done.seconds, 3),
    }


def _lines(aggregate: str, done: "ErasureReport") -> list[str]:
    look = done.topics
    said = listed([*look.findings, *done.findings, *map(_endless, done.endless)], done.count)
    said.append(f"{aggregate}: {counted(len(look.erased), 'aggregate')} erased, in {done.seconds:.1f} s")
    said += map(_waiting, look.waiting)
    for place, keys in done.caches.items():
        until = "until an owner of the partition starts here, or the folder is removed"
        said.append(f"waits {until}: {counted(keys, 'ended key')} in the cache {place}")
    if done.locations:
        left = done.patterns.too_short + look.shared
        without = f", without {left} that are short or that others have, too" if left else ""
        said.append(
            f"looked for {counted(done.patterns.count, 'value')} that commands still tell{without},"
            f" and for keys, in: {', '.join(done.locations)}"
        )
    return [*said, counted(done.count, "violation") if done.count else "no violation"]


def _waiting(one: "ExpiringRecords") -> str:
    if one.until is None:
        until = "until the topic is compacted"
    else:
        until = "for ever" if one.until < 0 else f"until {rfc3339(one.until)}"
    return f"waits {until}: {counted(one.records, 'record')} of {one.topic} {one.what}"


def _endless(topic: str) -> str:
    return f"{topic} keeps erased values for ever: give it a finite retention.ms"
