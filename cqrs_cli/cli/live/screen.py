"""The picture of `cqrs top`: a table of rows, the reasons of the last minute, notes and keys."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cqrs_cli.cli.live.model import Look, Row, View, partition_rows, summed
from cqrs_cli.cli.output import printable
from cqrs_cli.core.messages.timestamps import rfc3339

#: Header → what the rows are sorted by when it is underlined.
COLUMNS = {
    "partition": "name",
    "sent/s": "sent",
    "decided/s": "decided",
    "refused/s": "refused",
    "lag": "lag",
    "oldest": "oldest",
    "latency": "",
    "owner": "",
}

_KEYS = "sort: n name  s sent  d decided  r refused  l lag  o oldest    a aggregates  p pause  q quit"

#: Reasons and notes that have a place.
MOST = 6


def picture(
    before: Look | None,
    now: Look,
    view: View,
    reasons: Sequence[tuple[str, str, int]],
    trouble: str,
    height: int,
) -> RenderableType:
    """The whole screen, at most `height` lines high: rows that find no place are counted."""
    rows = view.rows(before, now)
    told = [*([f"{trouble}; still trying"] if trouble else []), *_notes(now)]
    below = bool(reasons) + min(len(told), MOST) + 2
    room = max(1, height - below - 4)
    head = Text.assemble(
        ("cqrs top  ", "bold"),
        f"{rfc3339(now.clock)}  {len(now.partitions)} partitions  sorted by {view.sort}",
        ("  paused", "bold yellow") if view.paused else "",
    )
    parts: list[RenderableType] = [head, _table(rows[:room], view.sort, before, now)]
    if len(rows) > room:
        parts.append(Text(f"and {len(rows) - room} more: a shows aggregates", "dim"))
    if reasons:
        told_reasons = "  ".join(f"{name} {reason} {times:,}" for name, reason, times in reasons)
        parts.append(Text(printable(f"refused in the last minute: {told_reasons}"), "yellow", no_wrap=True))
    parts += [Text(printable(note), "red", no_wrap=True, overflow="ellipsis") for note in told[:MOST]]
    parts.append(Text(_KEYS, "dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _notes(now: Look) -> list[str]:
    return [
        *now.notes,
        *(
            f"{name} {number}: {note}"
            for (name, number), part in now.partitions.items()
            for note in part.notes
        ),
    ]


def _table(rows: Sequence[Row], sort: str, before: Look | None, now: Look) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), show_footer=True, footer_style="dim")
    total = summed(partition_rows(before, now))
    for header, footer in zip(COLUMNS, ("all", *_cells(total)[1:]), strict=True):
        left = header in ("partition", "owner")
        style = "underline" if COLUMNS[header] == sort else ""
        table.add_column(Text(header, style), footer, justify="left" if left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row), style="" if row.owner != "none" else "red" if row.lag else "dim")
    return table


def _cells(row: Row) -> tuple[str, ...]:
    name = row.aggregate if row.partition is None else f"{row.aggregate} {row.partition}"
    return (
        name,
        _rate(row.sent),
        _rate(row.decided),
        _rate(row.refused),
        f"{row.lag:,}",
        _seconds(row.oldest),
        _seconds(row.latency),
        printable(row.owner),
    )


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:,.0f} min"
