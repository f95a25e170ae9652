"""The screen of `cqrs top`: a table of rows, the reasons of the last minute, remarks and keys."""

from collections.abc import Sequence
from math import ceil

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from cqrs_cli.cli.live.model import SORT_KEYS, DisplayOptions
from cqrs_cli.cli.output import printable
from cqrs_cli.cli.render.partition_table import partition_table, table_columns
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.status.columns import COLUMNS, StatusColumn, View, partition_row, total_row
from cqrs_cli.status.partition import AGGREGATE, standbys_by_name
from cqrs_cli.status.rates import StatusSnapshot

#: The width below which the header is shortened.
NARROW_WIDTH = 80

_KEYS = "q quit  p pause  a aggregates  sort: " + "  ".join(
    f"{key} {name}" for key, name in SORT_KEYS.items()
)

#: The largest number of messages below the table: the error and the remarks.
MAX_MESSAGES = 6


def render_screen(
    snapshot: StatusSnapshot,
    options: DisplayOptions,
    reasons: Sequence[tuple[str, str, int]],
    error: str,
    width: int,
    height: int,
    available_columns: Sequence[StatusColumn] = COLUMNS,
) -> RenderableType:
    """Return the whole screen, at most `height` lines high; rows that do not fit are counted."""
    columns = table_columns(
        View.TOP, [AGGREGATE, *(status.kind for status in snapshot.statuses)], available_columns
    )
    rows = options.rows(snapshot.statuses, columns)
    sums = total_row("total", [partition_row(status, columns) for status in snapshot.statuses], columns)
    messages = _messages(snapshot, error, width, min(height // 2, height - 7))
    standbys = [
        f"{name}: standby runs: {', '.join(runs)}"
        for name, runs in standbys_by_name(snapshot.statuses).items()
    ]
    line_count_below = (
        bool(reasons) + bool(standbys) + sum(_line_count(message, width) for message in messages) + 2
    )
    row_limit = max(1, height - line_count_below - 4)
    table = partition_table(AGGREGATE, rows[:row_limit], columns, sums, width, options.sort)
    parts: list[RenderableType] = [_header(snapshot, options, width), table]
    if len(rows) > row_limit:
        parts.append(Text(f"and {len(rows) - row_limit} more: a shows aggregates", "dim"))
    if standbys:
        parts.append(Text(printable("  ".join(standbys)), "dim", no_wrap=True, overflow="ellipsis"))
    if reasons:
        reasons_text = "  ".join(f"{name} {reason} {count:,}" for name, reason, count in reasons)
        text = printable(f"rejected or failed in the last minute: {reasons_text}")
        parts.append(Text(text, "yellow", no_wrap=True, overflow="ellipsis"))
    parts += [Text(message, "red", overflow="fold") for message in messages]
    parts.append(Text(_KEYS, "dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _header(snapshot: StatusSnapshot, options: DisplayOptions, width: int) -> Text:
    clock = rfc3339(snapshot.clock)
    title, clock = ("", clock[11:19]) if width < NARROW_WIDTH else ("cqrs top  ", clock)
    return Text.assemble(
        (title, "bold"),
        f"{clock}  {len(snapshot.statuses)} partitions  sorted by {options.sort}",
        ("  paused", "bold yellow") if options.is_paused else "",
    )


def _messages(snapshot: StatusSnapshot, error: str, width: int, max_lines: int) -> list[str]:
    """Return the error and the remarks that fit into `max_lines` lines; the first text is always included."""
    remarks = [f"{status.label}: {remark}" for status in snapshot.statuses for remark in status.remarks()]
    messages: list[str] = []
    for text in [*([f"{error}; still trying"] if error else []), *remarks][:MAX_MESSAGES]:
        text = printable(text)
        if messages and sum(_line_count(message, width) for message in (*messages, text)) > max_lines:
            break
        messages.append(text)
    return messages


def _line_count(text: str, width: int) -> int:
    return ceil(cell_len(text) / width)
