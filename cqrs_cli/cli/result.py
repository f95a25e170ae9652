"""The result of a command, for programs and for people. For rows, a list of columns defines both forms."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from cqrs_cli.cli.output import printable_lines
from cqrs_cli.column import Column

if TYPE_CHECKING:
    from rich.table import Table

    from cqrs_cli.cli.output import Text

_R = TypeVar("_R")

#: The largest number of violations or changes that are listed for people; JSON has all.
MOST_LINES = 10


class Result(NamedTuple):
    """A result as JSON, and for people."""

    document: dict[str, Any]
    text: "Text"


def table(
    rows: Iterable[_R], columns: Sequence[Column[_R]], headers: bool = True, margin: int = 0
) -> "Table":
    """Return rows for people, in the columns that have a header."""
    from rich.table import Table
    from rich.text import Text

    shown = [column for column in columns if column.header]
    rendered = Table(box=None, header_style="bold", padding=(0, 2, 0, margin), show_header=headers)
    for column in shown:
        side: Literal["left", "right"] = "left" if column.left_aligned else "right"
        rendered.add_column(column.header.strip(), justify=side, overflow="fold", no_wrap=column.no_wrap)
    for row in rows:
        cells = [(column, column.value_of(row)) for column in shown]
        rendered.add_row(
            *(Text(printable_lines(column.text(value)), column.style(value)) for column, value in cells)
        )
    return rendered


def first_lines(findings: Sequence[object], count: int | None = None) -> list[str]:
    """Return the first findings as lines, and the number of further findings."""
    lines = [str(finding) for finding in findings[:MOST_LINES]]
    more = (len(findings) if count is None else count) - len(lines)
    return [*lines, f"and {more:,} more: see -o json"] if more > 0 else lines
