"""The progress and the result of `cqrs rebuild`: as JSON, and for people."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import share_text
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.deciding.plan import Partition
    from cqrs_cli.deciding.rebuild.rebuild import Rebuilding, Rebuilt


def rebuilding_text(now: "Rebuilding", bar: bool = True) -> str:
    """The part that is done, the rate, and the time that is left at this rate."""
    return share_text("rebuilding", (now.done, now.records), now.done, "records", now.seconds, bar)


def rebuild_document(done: "Mapping[Partition, Rebuilt]", seconds: float) -> dict[str, Any]:
    shards = [
        {
            "aggregate": partition.aggregate,
            "partition": partition.number,
            "aggregates": rebuilt.shard.aggregates,
            "bytes": rebuilt.shard.bytes,
            "in_use": rebuilt.in_use,
        }
        for partition, rebuilt in sorted(done.items())
    ]
    return {"shards": shards, "seconds": round(seconds, 3)}


def rebuild_lines(done: "Mapping[Partition, Rebuilt]", seconds: float) -> list[str]:
    lines = []
    for name in sorted({partition.aggregate for partition in done}):
        shards = [rebuilt.shard for partition, rebuilt in done.items() if partition.aggregate == name]
        aggregates, size = sum(one.aggregates for one in shards), sum(one.bytes for one in shards)
        lines.append(
            f"{name}: {counted(len(shards), 'shard')} with {counted(aggregates, 'aggregate')}, {size / 1e6:,.1f} MB"
        )
    return [*lines, f"rebuilt in {seconds:.1f} s"]
