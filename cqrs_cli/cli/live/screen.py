"""The screen of `cqrs top`: a table of rows, the reasons of the last minute, remarks and keys."""

from collections.abc import Sequence
from math import ceil

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from cqrs_cli.cli.live.model import SORTS, Choices
from cqrs_cli.cli.output import printable
from cqrs_cli.cli.render.partition_table import columns_of, place_table
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.status.columns import COLUMNS, StatusColumn, View, row, total
from cqrs_cli.status.partition import AGGREGATE, standbys_by_name
from cqrs_cli.status.rates import StatusSnapshot

#: The width below which the header is shortened.
NARROW = 80

_KEYS = "q quit  p pause  a aggregates  sort: " + "  ".join(f"{key} {name}" for key, name in SORTS.items())

#: The largest number of reasons and remarks.
MOST = 6


def picture(
    look: StatusSnapshot,
    choices: Choices,
    reasons: Sequence[tuple[str, str, int]],
    trouble: str,
    width: int,
    height: int,
    of: Sequence[StatusColumn] = COLUMNS,
) -> RenderableType:
    """Return the whole screen, at most `height` lines high; rows that do not fit are counted."""
    columns = columns_of(View.TOP, [AGGREGATE, *(place.kind for place in look.statuses)], of)
    rows = choices.rows(look.statuses, columns)
    sums = total("total", [row(place, columns) for place in look.statuses], columns)
    told = _told(look, trouble, width, min(height // 2, height - 7))
    standbys = [
        f"{name}: standing by: {', '.join(runs)}" for name, runs in standbys_by_name(look.statuses).items()
    ]
    below = bool(reasons) + bool(standbys) + sum(_lines(note, width) for note in told) + 2
    room = max(1, height - below - 4)
    table = place_table(AGGREGATE, rows[:room], columns, sums, width, choices.sort)
    parts: list[RenderableType] = [_head(look, choices, width), table]
    if len(rows) > room:
        parts.append(Text(f"and {len(rows) - room} more: a shows aggregates", "dim"))
    if standbys:
        parts.append(Text(printable("  ".join(standbys)), "dim", no_wrap=True, overflow="ellipsis"))
    if reasons:
        often = "  ".join(f"{name} {reason} {times:,}" for name, reason, times in reasons)
        text = printable(f"refused in the last minute: {often}")
        parts.append(Text(text, "yellow", no_wrap=True, overflow="ellipsis"))
    parts += [Text(note, "red", overflow="fold") for note in told]
    parts.append(Text(_KEYS, "dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _head(look: StatusSnapshot, choices: Choices, width: int) -> Text:
    clock = rfc3339(look.clock)
    title, clock = ("", clock[11:19]) if width < NARROW else ("cqrs top  ", clock)
    return Text.assemble(
        (title, "bold"),
        f"{clock}  {len(look.statuses)} partitions  sorted by {choices.sort}",
        ("  paused", "bold yellow") if choices.paused else "",
    )


def _told(look: StatusSnapshot, trouble: str, width: int, most: int) -> list[str]:
    """Return the error and the remarks that fit into `most` lines; the first text is always included."""
    remarks = [f"{place.label}: {remark}" for place in look.statuses for remark in place.remarks()]
    told: list[str] = []
    for text in [*([f"{trouble}; still trying"] if trouble else []), *remarks][:MOST]:
        text = printable(text)
        if told and sum(_lines(one, width) for one in (*told, text)) > most:
            break
        told.append(text)
    return told


def _lines(text: str, width: int) -> int:
    return ceil(cell_len(text) / width)
