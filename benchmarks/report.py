"""Figures as a table for people on stderr, with medians, and as a JSON document of all runs on stdout."""

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def report(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows; the table also has the medians of rows with an equal `what`."""
    all_rows = [*rows, *medians(rows)]
    table = Table(title=f"{title} ({os.cpu_count()} cores, Python {platform.python_version()})")
    names = list(dict.fromkeys(name for row in all_rows for name in row))
    for name in names:
        table.add_column(name.replace("_", " "), justify="left" if name == "what" else "right")
    for row in all_rows:
        table.add_row(*(_text(row.get(name, "")) for name in names))
    Console(stderr=True).print(table)
    json.dump({"benchmark": title, "rows": list(rows)}, sys.stdout)
    print()


def medians(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each `what` that was measured more than once."""
    median_rows = []
    for what in dict.fromkeys(row["what"] for row in rows):
        same_rows = [row for row in rows if row["what"] == what]
        if len(same_rows) > 1:
            number_names = [name for name in same_rows[0] if isinstance(same_rows[0][name], (int, float))]
            median_rows.append(
                {"what": f"{what}, median of {len(same_rows)}"}
                | {name: statistics.median(row[name] for row in same_rows) for name in number_names}
            )
    return median_rows


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
