"""The preview and the result of `cqrs repartition`."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.result import Result, table
from cqrs_cli.column import Column
from cqrs_cli.formatting import counted, rough_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.deciding.repartition import PlannedGrowth
    from cqrs_cli.scans.repartitioning import GrowthWork, MovingKeys


def _numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


MOVING: "tuple[Column[MovingKeys], ...]" = (
    Column("partition", header="partition", left=False),
    Column("children", header="gives keys to", text=_numbers),
    Column("events", header="events (estimated)", left=False),
    Column("deferred", header="deferred commands", left=False),
)


def growth_preview(aggregate: str, planned: "PlannedGrowth", work: "GrowthWork") -> Result:
    """Return the preview of a repartitioning."""
    document = {
        **_growth(aggregate, planned, dry_run=True),
        "partitions": [one._asdict() for one in work.moving],
        "rebuild": {"events": work.read, "seconds": round(work.seconds, 1)},
    }
    if not work.moving:
        return Result(document, f"{_counts(aggregate, planned)}: nothing is left to do")

    def text() -> "RenderableType":
        from rich.console import Group

        making = f"{counted(work.read, 'event')} are read, about {rough_time(work.seconds)} on two cores"
        return Group(
            f"dry run: {_counts(aggregate, planned)}",
            table(work.moving, MOVING),
            f"making all shards: {making}",
        )

    return Result(document, text)


def grown_topics(aggregate: str, planned: "PlannedGrowth") -> Result:
    """Return the result after partitions were added to the topics: the next run does the remaining steps."""
    left = planned.lineage.unfinished(planned.after)
    document = {**_growth(aggregate, planned, dry_run=False), "left": left}
    said = f"{_counts(aggregate, planned)}: "
    if not left:
        return Result(document, f"{said}nothing is left to do")
    return Result(document, f"{said}the topics have them; the next run splits: cqrs run")


def _growth(aggregate: str, planned: "PlannedGrowth", dry_run: bool) -> dict[str, object]:
    *_, before, after = planned.lineage.counts
    return {"aggregate": aggregate, "dry_run": dry_run, "from": before, "to": after}


def _counts(aggregate: str, planned: "PlannedGrowth") -> str:
    *_, before, after = planned.lineage.counts
    return f"{aggregate}: {before} → {after} partitions"
