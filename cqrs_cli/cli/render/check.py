"""The findings of `cqrs check`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cqrs_cli.cli.result import Result, table
from cqrs_cli.column import Column
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.compatibility import Change
    from cqrs_cli.doctor.contracts import ContractComparison, Level
    from cqrs_cli.scans.check import UnreadableType

_COLOURS = {"green": "green", "amber": "yellow", "red": "red", "": ""}


class LogRead(NamedTuple):
    """The number of events in an aggregate's log, and the events that the code cannot read."""

    events: int
    unreadable: "list[UnreadableType]"


class _Line(NamedTuple):
    """A row of the printed table: level, aggregate and text, such as ("red", "order", "event Placed was removed")."""

    level: str
    aggregate: str
    what: str


_COLUMNS: tuple[Column[_Line], ...] = (
    Column("level", header="level", style=_COLOURS.__getitem__),
    Column("aggregate", header="aggregate"),
    Column("what", header="what"),
)


def highest_level(comparisons: "Sequence[ContractComparison]", logs: Mapping[str, LogRead]) -> "Level":
    """Return red for a breaking change, amber for a contract that must be written, else green."""
    levels = {comparison.level for comparison in comparisons} | {
        "red" for log in logs.values() if log.unreadable
    }
    if "red" in levels:
        return "red"
    return "amber" if "amber" in levels else "green"


def check_result(
    comparisons: "Sequence[ContractComparison]", logs: Mapping[str, LogRead], written: bool
) -> Result:
    """Return the changes in each aggregate, and the events that the code cannot read."""
    document: dict[str, Any] = {
        "level": highest_level(comparisons, logs),
        "written": written,
        "aggregates": {
            comparison.aggregate: {
                "level": comparison.level,
                "file": str(comparison.file),
                "changes": [_change_document(change) for change in comparison.changes],
            }
            for comparison in comparisons
        },
    }
    if logs:
        document["logs"] = {
            name: {
                "events": log.events,
                "unreadable": [unreadable_type._asdict() for unreadable_type in log.unreadable],
            }
            for name, log in logs.items()
        }
    return Result(document, lambda: table(_lines(comparisons, logs, written), _COLUMNS, headers=False))


def _change_document(change: "Change") -> dict[str, str]:
    return {"level": change.level, "what": change.description, "do": change.remedy}


def _lines(
    comparisons: "Sequence[ContractComparison]", logs: Mapping[str, LogRead], written: bool
) -> Iterator[_Line]:
    for comparison in comparisons:
        if not comparison.changes:
            yield _Line("green", comparison.aggregate, "as committed")
        for change in comparison.changes:
            hint = f"\n→ {change.remedy}" if change.remedy else ""
            yield _Line(change.level, comparison.aggregate, change.description + hint)
    for name, log in logs.items():
        if not log.unreadable:
            yield _Line("green", name, f"the code reads every event, {log.events:,}")
        for unreadable_type in log.unreadable:
            count = unreadable_type.times
            count_text = f" ({counted(count, 'event')} like it)" if count > 1 else ""
            position = format_position(unreadable_type.partition, unreadable_type.offset)
            yield _Line("red", name, f"{position}: {unreadable_type.reason}{count_text}")
    if written:
        yield _Line("", "", "written: commit schemas/")
    elif highest_level(comparisons, {}) == "amber":
        yield _Line("", "", "write it: cqrs check --write")
