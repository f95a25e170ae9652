"""Builds tables of partitions for `cqrs status` and `cqrs top`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from cqrs_cli.cli.output import printable
from cqrs_cli.status.columns import COLUMNS, Row, StatusColumn, View, cell_texts
from cqrs_cli.status.partition import PartitionKind

#: Characters between two columns.
_COLUMN_GAP = 2


def table_columns(
    view: View, kinds: Iterable[PartitionKind], columns: Sequence[StatusColumn] = COLUMNS
) -> list[StatusColumn]:
    """Return the columns of a table with these kinds of partitions."""
    present_kinds = set(kinds)
    return [
        column
        for column in columns
        if column.header and view in column.view and present_kinds & set(column.kinds)
    ]


def partition_table(
    kind: PartitionKind,
    rows: Sequence[Row],
    columns: Sequence[StatusColumn],
    sums: Row,
    width: int,
    sort: str = "",
) -> Table:
    """Return a table with the headers of `kind`; the column by which the rows are sorted is underlined.

    If `width` is too small, columns with a `hide_rank` are left out, then owners' names are shortened.
    """
    visible_indexes, owner_width = _fit_columns(kind, [*rows, sums], columns, width)
    table = Table(
        box=None, header_style="bold", padding=(0, _COLUMN_GAP, 0, 0), show_footer=True, footer_style="bold"
    )
    table.add_column(Text(kind.title, _header_style(sort == "name")), sums.label, no_wrap=True)
    footers = list(cell_texts(sums, columns, is_total=True))
    for number in visible_indexes:
        column = columns[number]
        table.add_column(
            Text(header_of(column, kind), _header_style(sort == column.name)),
            printable(footers[number]),
            justify="left" if column.left_aligned else "right",
            no_wrap=True,
            overflow="ellipsis",
            max_width=owner_width if column.left_aligned else None,
        )
    for row in rows:
        cells = list(cell_texts(row, columns))
        table.add_row(
            row.label, *(printable(cells[number]) for number in visible_indexes), style=_style(row, columns)
        )
    return table


def header_of(column: StatusColumn, kind: PartitionKind) -> str:
    """Return a column's header with the texts of `kind`."""
    return column.header.format(**kind.placeholder_values)


def _header_style(is_sorted: bool) -> str:
    return "underline" if is_sorted else ""


def _style(row: Row, columns: Sequence[StatusColumn]) -> str:
    """Return the style of a row: red if commands wait for an owner, dim without an owner and lag."""
    values = {column.name: value for column, value in zip(columns, row.values, strict=True)}
    return "" if values.get("owner") is not None else "red" if values.get("lag") else "dim"


class _Fit(NamedTuple):
    """The indexes of the columns that fit, and the width in characters that remains for names of owners."""

    columns: list[int]
    owner_width: int


def _fit_columns(
    kind: PartitionKind, rows: Sequence[Row], columns: Sequence[StatusColumn], width: int
) -> _Fit:
    """Leave out rare columns without values, then columns with a `hide_rank`, the highest rank first, until the others
    fit. If they still do not fit, the names of owners are shortened.
    """
    cells = [list(cell_texts(row, columns)) for row in rows]
    widths = [
        _COLUMN_GAP
        + max(cell_len(text) for text in (header_of(column, kind), *(line[number] for line in cells)))
        for number, column in enumerate(columns)
    ]
    visible_indexes = [
        number
        for number, column in enumerate(columns)
        if not column.is_rare or any(line[number] for line in cells)
    ]
    available_width = width - _COLUMN_GAP - max(cell_len(row.label) for row in rows)
    while (excess := sum(widths[number] for number in visible_indexes) - available_width) > 0:
        next_hidden = max(visible_indexes, key=lambda number: columns[number].hide_rank)
        if not columns[next_hidden].hide_rank:
            break
        visible_indexes.remove(next_hidden)
    owner_width = sum(
        widths[number] - _COLUMN_GAP for number in visible_indexes if columns[number].left_aligned
    )
    return _Fit(visible_indexes, max(1, owner_width - max(0, excess)))
