"""The preview and the result of `cqrs repartition`."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.result import Result, table
from cqrs_cli.column import Column
from cqrs_cli.formatting import counted, rough_time

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.deciding.repartition import PlannedRepartitioning
    from cqrs_cli.scans.repartitioning import KeyHandover, RepartitioningWork


def _number_list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


MOVING_COLUMNS: "tuple[Column[KeyHandover], ...]" = (
    Column("partition", header="partition", left_aligned=False),
    Column("children", header="child partitions", text=_number_list),
    Column("events", header="events (estimated)", left_aligned=False),
    Column("deferred", header="deferred commands", left_aligned=False),
)


def repartition_preview(
    aggregate: str, planned: "PlannedRepartitioning", work: "RepartitioningWork"
) -> Result:
    """Return the preview of a repartitioning."""
    document = {
        **_document(aggregate, planned, dry_run=True),
        "partitions": [moving_keys._asdict() for moving_keys in work.moving],
        "rebuild": {"events": work.events_to_read, "seconds": round(work.seconds, 1)},
    }
    if not work.moving:
        return Result(document, f"{_counts_text(aggregate, planned)}: nothing is left to do")

    def text() -> "RenderableType":
        from rich.console import Group

        work_text = (
            f"{counted(work.events_to_read, 'event')} to read, about {rough_time(work.seconds)} on two cores"
        )
        return Group(
            f"dry run: {_counts_text(aggregate, planned)}",
            table(work.moving, MOVING_COLUMNS),
            f"folding all shards: {work_text}",
        )

    return Result(document, text)


def repartition_result(aggregate: str, planned: "PlannedRepartitioning") -> Result:
    """Return the result after partitions were added to the topics: the next run does the remaining steps."""
    unfinished_partitions = planned.key_space.unfinished_partitions(planned.after)
    document = {**_document(aggregate, planned, dry_run=False), "left": unfinished_partitions}
    prefix = f"{_counts_text(aggregate, planned)}: "
    if not unfinished_partitions:
        return Result(document, f"{prefix}nothing is left to do")
    return Result(document, f"{prefix}added to the topics; the next run splits the partitions: cqrs run")


def _document(aggregate: str, planned: "PlannedRepartitioning", dry_run: bool) -> dict[str, object]:
    *_, before, after = planned.key_space.counts
    return {"aggregate": aggregate, "dry_run": dry_run, "from": before, "to": after}


def _counts_text(aggregate: str, planned: "PlannedRepartitioning") -> str:
    *_, before, after = planned.key_space.counts
    return f"{aggregate}: {before} → {after} partitions"
