"""The columns of a result, declared once for both output formats: JSON documents and tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_Row = TypeVar("_Row")


def no_style(value: Any) -> str:
    """Return no style: the default of `Column.style`."""
    return ""


def plain_text(value: Any) -> str:
    """Return a number with commas (`2,000`), an empty text for None, and other values as text."""
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class Column(Generic[_Row]):
    """A column of a result. JSON documents contain columns with a name, tables contain columns with a header."""

    name: str  # the member in JSON, and the row's attribute if `value` is None
    value: Callable[[_Row], Any] | None = None
    header: str = ""
    text: Callable[[Any], str] = plain_text  # formats the value for a table
    json: Callable[[_Row], Any] | None = None  # converts the row for JSON; None: JSON contains the value
    left_aligned: bool = True  # left-aligned cells; False: right-aligned
    no_wrap: bool = False  # cells are never wrapped
    style: Callable[[Any], str] = no_style  # the colour of a value in a table

    def value_of(self, row: _Row) -> Any:
        """Return the row's value in this column."""
        return getattr(row, self.name) if self.value is None else self.value(row)


def row_document(row: _Row, columns: Sequence[Column[_Row]]) -> dict[str, Any]:
    """Return a row as the members of a JSON object."""
    return {column.name: (column.json or column.value_of)(row) for column in columns if column.name}
