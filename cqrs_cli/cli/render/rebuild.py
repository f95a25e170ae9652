"""The progress and the result of `cqrs rebuild`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cqrs_cli.cli.output import progress_text
from cqrs_cli.cli.result import Result
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.deciding.plan import Partition
    from cqrs_cli.deciding.rebuild.rebuild import RebuildProgress, RebuiltShard


def rebuilding_text(progress: "RebuildProgress", with_bar: bool = True) -> str:
    """Return the part that is done, the rate, and the remaining time at this rate."""
    return progress_text(
        "rebuilding", (progress.done, progress.records), progress.done, "records", progress.seconds, with_bar
    )


def rebuild_result(rebuilt_by_partition: "Mapping[Partition, RebuiltShard]", seconds: float) -> Result:
    """Return the rebuilt shards: each shard in the JSON, the sums of each aggregate in the text."""
    lines = []
    for name in sorted({partition.aggregate for partition in rebuilt_by_partition}):
        shards = [
            rebuilt.shard
            for partition, rebuilt in rebuilt_by_partition.items()
            if partition.aggregate == name
        ]
        aggregates = counted(sum(shard.aggregates for shard in shards), "aggregate")
        size = sum(shard.bytes for shard in shards) / 1e6
        lines.append(f"{name}: {counted(len(shards), 'shard')} with {aggregates}, {size:,.1f} MB")
    documents = [
        {
            "aggregate": partition.aggregate,
            "partition": partition.number,
            "aggregates": rebuilt.shard.aggregates,
            "bytes": rebuilt.shard.bytes,
            "in_use": rebuilt.in_use,
        }
        for partition, rebuilt in sorted(rebuilt_by_partition.items())
    ]
    return Result(
        {"shards": documents, "seconds": round(seconds, 3)}, [*lines, f"rebuilt in {seconds:.1f} s"]
    )
