"""The findings of `cqrs check`: as JSON, and for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cqrs_cli.cli.output import printable
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.doctor.contracts import Compared, Level
    from cqrs_cli.scans.check import Unreadable

_COLOURS = {"green": "green", "amber": "yellow", "red": "red"}


class LogRead(NamedTuple):
    """The number of events in an aggregate's log, and those that the code cannot read."""

    events: int
    unreadable: "list[Unreadable]"


def gravest(compared: "Sequence[Compared]", logs: Mapping[str, LogRead]) -> "Level":
    """Red if anything breaks, amber if anything is to be written, else green."""
    levels = {one.level for one in compared} | {"red" for log in logs.values() if log.unreadable}
    return "red" if "red" in levels else "amber" if "amber" in levels else "green"


def check_document(
    compared: "Sequence[Compared]", logs: Mapping[str, LogRead], written: bool
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "level": gravest(compared, logs),
        "written": written,
        "aggregates": {
            one.aggregate: {
                "level": one.level,
                "file": str(one.file),
                "changes": [change._asdict() for change in one.changes],
            }
            for one in compared
        },
    }
    if logs:
        document["logs"] = {
            name: {"events": log.events, "unreadable": [bad._asdict() for bad in log.unreadable]}
            for name, log in logs.items()
        }
    return document


def check_text(
    compared: "Sequence[Compared]", logs: Mapping[str, LogRead], written: bool
) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for one in compared:
        if not one.changes:
            table.add_row(Text("green", "green"), one.aggregate, "as committed")
        for change in one.changes:
            hint = f"\n→ {change.do}" if change.do else ""
            table.add_row(
                Text(change.level, _COLOURS[change.level]), one.aggregate, Text(printable(change.what) + hint)
            )
    for name, log in logs.items():
        if not log.unreadable:
            table.add_row(Text("green", "green"), name, f"the code reads every event, {log.events:,}")
        for bad in log.unreadable:
            place = f"partition {bad.partition} offset {bad.offset}"
            more = f" ({counted(bad.times, 'event')} like it there)" if bad.times > 1 else ""
            table.add_row(Text("red", "red"), name, Text(printable(f"{place}: {bad.reason}{more}")))
    if written:
        table.add_row("", "", "written: commit schemas/")
    elif gravest(compared, {}) == "amber":
        table.add_row("", "", "write it: cqrs check --write")
    return table
