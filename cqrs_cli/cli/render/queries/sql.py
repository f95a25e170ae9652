"""Prints the rows of a query as a table, as CSV, or as lines of JSON."""

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
MAX_ROWS = 1_000


def print_rows(
    cli: Cli,
    result: "DataFrame",
    format: Literal["table", "csv", "json", "parquet"],
    check_complete: Callable[[], None],
) -> None:
    """Print `result`, which was prepared by `json_lines` for JSON, else by `text_columns`.

    `check_complete` is called before each row is printed, and raises an error if the query missed records.
    """
    if format == "json":
        for (document,) in _checked_rows(result.toLocalIterator(), check_complete):
            cli.write_line(document.encode())
    elif format == "csv":
        for line in csv_lines(result.columns, _checked_rows(result.toLocalIterator(), check_complete)):
            cli.write_line(line)
    else:
        rows = result.limit(MAX_ROWS + 1).collect()
        check_complete()
        cli.stdout.print(rows_table(result.columns, rows[:MAX_ROWS]))
        if len(rows) > MAX_ROWS:
            cli.print_note(f"these are the first {MAX_ROWS:,} rows: --format csv or json prints all")


def _checked_rows(rows: "Iterable[Any]", check_complete: Callable[[], None]) -> Iterator[Any]:
    for row in rows:
        check_complete()
        yield row


def rows_table(columns: list[str], rows: "Iterable[Any]") -> "Table":
    """Return the rows as a table; numbers are aligned right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        is_numeric = any(isinstance(row[number], (int, float, Decimal)) for row in islice(rows, 20))
        table.add_column(Text(printable(name)), justify="right" if is_numeric else "left", overflow="fold")
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

    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue().removesuffix("\r\n").encode(errors="replace")


def cell_text(value: Any) -> str:
    """Return a value as text. Times, lists and objects are text already (`text_columns`)."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return str(value)
