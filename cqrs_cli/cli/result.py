"""The result of a command as JSON and as text. For rows, a list of columns defines both forms."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from cqrs_cli.cli.output import printable_lines
from cqrs_cli.column import Column

if TYPE_CHECKING:
    from rich.table import Table

    from cqrs_cli.cli.output import Text

_Row = TypeVar("_Row")

#: The largest number of violations or changes in a text; JSON has all of them.
MAX_LINES = 10


class Result(NamedTuple):
    """A result as JSON and as text."""

    document: dict[str, Any]
    text: "Text"


def table(
    rows: Iterable[_Row], columns: Sequence[Column[_Row]], with_headers: bool = True, margin: int = 0
) -> "Table":
    """Return a table of the columns that have a header. `margin`: spaces before the first column."""
    from rich.table import Table
    from rich.text import Text

    visible_columns = [column for column in columns if column.header]
    rich_table = Table(box=None, header_style="bold", padding=(0, 2, 0, margin), show_header=with_headers)
    for column in visible_columns:
        alignment: Literal["left", "right"] = "left" if column.left_aligned else "right"
        rich_table.add_column(
            column.header.strip(), justify=alignment, overflow="fold", no_wrap=column.no_wrap
        )
    for row in rows:
        cells = [(column, column.value_of(row)) for column in visible_columns]
        rich_table.add_row(
            *(Text(printable_lines(column.text(value)), column.style(value)) for column, value in cells)
        )
    return rich_table


def first_lines(findings: Sequence[object], count: int | None = None) -> list[str]:
    """Return the first findings as lines, and a line with the number of the others.

    `count`: the number of all findings, if `findings` has only a part of them.
    """
    lines = [str(finding) for finding in findings[:MAX_LINES]]
    hidden_count = (len(findings) if count is None else count) - len(lines)
    return [*lines, f"and {hidden_count:,} more: see -o json"] if hidden_count > 0 else lines
