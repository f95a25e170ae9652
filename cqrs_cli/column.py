"""The one list of what is told of each row of a result: as a member of JSON, as a column of a table, or both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_R = TypeVar("_R")


def unstyled(value: Any) -> str:
    """No colour."""
    return ""


def plain(value: Any) -> str:
    """Numbers with commas; None is nothing."""
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class Column(Generic[_R]):
    """One thing that is told of a row: in JSON if it has a name, in tables if it has a header."""

    name: str  # also the attribute of the row, if there is no `value`
    value: Callable[[_R], Any] | None = None
    header: str = ""
    text: Callable[[Any], str] = plain  # of the value, in a table
    json: Callable[[_R], Any] | None = None  # None: the value
    left: bool = True  # how cells are aligned
    whole: bool = False  # its cells are not wrapped
    style: Callable[[Any], str] = unstyled  # the value's colour, in a table

    def of(self, row: _R) -> Any:
        """The value."""
        return getattr(row, self.name) if self.value is None else self.value(row)


def row_document(row: _R, columns: Sequence[Column[_R]]) -> dict[str, Any]:
    """A row in JSON."""
    return {column.name: (column.json or column.of)(row) for column in columns if column.name}
