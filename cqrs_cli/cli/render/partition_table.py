"""Tables of partitions, from the list of columns."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from cqrs_cli.cli.output import printable
from cqrs_cli.status.columns import COLUMNS, Row, StatusColumn, View, texts
from cqrs_cli.status.partition import PartitionKind

#: Characters between two columns.
_GAP = 2


def table_columns(
    view: View, kinds: Iterable[PartitionKind], columns: Sequence[StatusColumn] = COLUMNS
) -> list[StatusColumn]:
    """Return the columns of a table with these kinds of partitions."""
    present = set(kinds)
    return [one for one in columns if one.header and view in one.view and present & set(one.kinds)]


def partition_table(
    kind: PartitionKind,
    rows: Sequence[Row],
    columns: Sequence[StatusColumn],
    sums: Row,
    width: int,
    sort: str = "",
) -> Table:
    """Return a table with the headers of `kind`; the column by which the rows are sorted is underlined.

    If `width` is too small, spare columns are left out, then owners' names are shortened.
    """
    numbers, names = _fit_columns(kind, [*rows, sums], columns, width)
    table = Table(
        box=None, header_style="bold", padding=(0, _GAP, 0, 0), show_footer=True, footer_style="bold"
    )
    table.add_column(Text(kind.title, _header_style(sort == "name")), sums.label, no_wrap=True)
    footers = list(texts(sums, columns, summed=True))
    for number in numbers:
        column = columns[number]
        table.add_column(
            Text(header_of(column, kind), _header_style(sort == column.name)),
            printable(footers[number]),
            justify="left" if column.left_aligned else "right",
            no_wrap=True,
            overflow="ellipsis",
            max_width=names if column.left_aligned else None,
        )
    for row in rows:
        cells = list(texts(row, columns))
        table.add_row(row.label, *(printable(cells[one]) for one in numbers), style=_style(row, columns))
    return table


def header_of(column: StatusColumn, kind: PartitionKind) -> str:
    """Return a column's header with the texts of `kind`."""
    return column.header.format(**kind.words)


def _header_style(is_sorted: bool) -> str:
    return "underline" if is_sorted else ""


def _style(row: Row, columns: Sequence[StatusColumn]) -> str:
    """Return red for commands that wait for an owner."""
    found = {column.name: value for column, value in zip(columns, row.values, strict=True)}
    return "" if found.get("owner") is not None else "red" if found.get("lag") else "dim"


class _Fit(NamedTuple):
    """The numbers of the columns that fit, and the remaining width for names of owners."""

    numbers: list[int]
    names: int


def _fit_columns(
    kind: PartitionKind, rows: Sequence[Row], columns: Sequence[StatusColumn], width: int
) -> _Fit:
    """Leave out rare columns without values, then spare columns until the other columns fit; then shorten names."""
    cells = [list(texts(row, columns)) for row in rows]
    widths = [
        _GAP + max(cell_len(text) for text in (header_of(column, kind), *(line[number] for line in cells)))
        for number, column in enumerate(columns)
    ]
    visible = [n for n, one in enumerate(columns) if not one.rare or any(line[n] for line in cells)]
    room = width - _GAP - max(cell_len(row.label) for row in rows)
    while (excess := sum(widths[number] for number in visible) - room) > 0:
        hidden = max(visible, key=lambda number: columns[number].spare)
        if not columns[hidden].spare:
            break
        visible.remove(hidden)
    names = sum(widths[number] - _GAP for number in visible if columns[number].left_aligned)
    return _Fit(visible, max(1, names - max(0, excess)))
