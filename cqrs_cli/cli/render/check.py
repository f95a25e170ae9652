"""The findings of `cqrs check`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cqrs_cli.cli.render.report import Finding, Report, SourceLine
from cqrs_cli.cli.result import Result, table
from cqrs_cli.column import Column
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from cqrs_cli.core.aggregate.compatibility import Change
    from cqrs_cli.doctor.contracts import ContractComparison, Level
    from cqrs_cli.scans.check import UnreadableType

#: Level → colour on a terminal; "" is a line without a level.
_COLOURS = {"green": "green", "amber": "yellow", "red": "red", "": ""}

_UNREADABLE_TEXT = "the code cannot read the event: cqrs check --log prints the reason"


class LogRead(NamedTuple):
    """The result of reading an aggregate's log."""

    events: int  # number of events
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
    comparisons: "Sequence[ContractComparison]", logs: Mapping[str, LogRead], is_written: bool
) -> Result:
    """Return the changes in each aggregate, and the events that the code cannot read."""
    document: dict[str, Any] = {
        "level": highest_level(comparisons, logs),
        "written": is_written,
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
    return Result(
        document, lambda: table(_lines(comparisons, logs, is_written), _COLUMNS, with_headers=False)
    )


def check_report(
    comparisons: "Sequence[ContractComparison]",
    logs: Mapping[str, LogRead],
    locate: Callable[[str], SourceLine],
) -> Report:
    """Return red findings as errors and amber findings as warnings; `locate` returns the line of an aggregate."""
    findings = [
        Finding(
            "error" if line.level == "red" else "warning",
            f"check-{line.level}",
            f"{line.aggregate}: {line.what}",
            locate(line.aggregate),
        )
        for line in _lines(comparisons, logs, is_written=False, has_reasons=False)
        if line.level in ("red", "amber")
    ]
    names = ", ".join(comparison.aggregate for comparison in comparisons)
    return Report("cqrs check", findings, f"{names}: {highest_level(comparisons, logs)}")


def _change_document(change: "Change") -> dict[str, str]:
    return {"level": change.level, "what": change.description, "do": change.remedy}


def _lines(
    comparisons: "Sequence[ContractComparison]",
    logs: Mapping[str, LogRead],
    is_written: bool,
    has_reasons: bool = True,
) -> Iterator[_Line]:
    """Yield the changes and the unreadable events. `has_reasons`: with the reasons, which may quote data of events."""
    for comparison in comparisons:
        if all(change.level == "green" for change in comparison.changes):
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
            reason = unreadable_type.reason if has_reasons else _UNREADABLE_TEXT
            yield _Line("red", name, f"{position}: {reason}{count_text}")
    if is_written:
        yield _Line("", "", "written: commit schemas/")
    elif highest_level(comparisons, {}) == "amber":
        yield _Line("", "", "write it: cqrs check --write")
