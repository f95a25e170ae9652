"""The rows of a query: as a table, as CSV, or as lines of JSON."""

import base64
import io
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from rich.table import Table

#: The largest number of rows in a table.
MOST_ROWS = 1_000


def print_rows(
    cli: Cli,
    answer: "DataFrame",
    shape: Literal["table", "csv", "json", "parquet"],
    check: Callable[[], None],
) -> None:
    """Print the answer of a query: from `json_lines` for JSON, else from `text_columns`.

    `check` raises if rows are missing; rows derived from a partial input stay unprinted.
    """
    if shape == "json":
        for (document,) in _checked(answer.toLocalIterator(), check):
            cli.write_line(document.encode())
    elif shape == "csv":
        for line in csv_lines(answer.columns, _checked(answer.toLocalIterator(), check)):
            cli.write_line(line)
    else:
        rows = answer.limit(MOST_ROWS + 1).collect()
        check()
        cli.stdout.print(rows_table(answer.columns, rows[:MOST_ROWS]))
        if len(rows) > MOST_ROWS:
            cli.print_note(f"these are the first {MOST_ROWS:,} rows: --format csv or json prints all")


def _checked(rows: "Iterable[Any]", check: Callable[[], None]) -> Iterator[Any]:
    for row in rows:
        check()
        yield row


def rows_table(columns: list[str], rows: "Iterable[Any]") -> "Table":
    """Return the rows as a table; numbers are aligned right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        numeric = any(isinstance(row[number], (int, float, Decimal)) for row in islice(rows, 20))
        table.add_column(Text(printable(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell_text(value))) for value in row))
    return table


def csv_lines(columns: list[str], rows: "Iterable[Any]") -> Iterable[bytes]:
    """Yield the rows as CSV (RFC 4180), with a header."""
    yield _csv_line(columns)
    for row in rows:
        yield _csv_line([cell_text(value) for value in row])


def _csv_line(cells: list[str]) -> bytes:
    import csv

    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue().removesuffix("\r\n").encode(errors="replace")


def cell_text(value: Any) -> str:
    """Return a value as text. Times, lists and objects are text already (`text_columns`)."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return str(value)
