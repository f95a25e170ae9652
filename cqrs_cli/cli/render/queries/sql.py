"""The rows of a query: as a table, as CSV, or as lines of JSON."""

import base64
import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
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
    """Print the answer of a query. `check` raises if rows are missing; rows derived from a partial input stay
    unprinted.
    """
    if shape == "json":
        with warnings.catch_warnings():
            # Of a later Spark, in which toJSON returns a DataFrame.
            warnings.simplefilter("ignore", UserWarning)
            documents = answer.toJSON()
        for row in _checked(documents.toLocalIterator(), check):
            cli.write_line(str(row).encode())
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
    """Return a value as text: times in UTC, lists and objects as JSON."""
    from cqrs_cli.core.messages.json import encode_json

    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (list, dict, tuple)):
        return encode_json(_plain(value)).decode()
    return str(value)


def _plain(value: Any) -> Any:
    """Convert lists and objects to values that JSON can represent."""
    if hasattr(value, "asDict"):
        return {name: _plain(one) for name, one in value.asDict().items()}
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (int, float, str, type(None))) else cell_text(value)
