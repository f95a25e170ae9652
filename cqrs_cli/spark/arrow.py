"""Columns of Arrow for what a job writes, by the types of the aggregate's classes."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.spark.field_types import FieldColumn, value_array

if TYPE_CHECKING:
    import pyarrow


def time_array(texts: Iterable[str]) -> "pyarrow.Array":
    """Times as they stand in events, as timestamps."""
    import pyarrow

    times = pyarrow.array([parse_timestamp(text) * 1000 for text in texts], pyarrow.int64())
    return times.view(pyarrow.timestamp("us", "UTC"))


def field_array(
    column: FieldColumn, values: list[Any], kind: Any, spell: Callable[[int], str]
) -> "pyarrow.Array":
    """A field of some messages, None where there is no message; raises `CqrsError` for a value without a place.

    `spell` names the message of a number, for the error.
    """
    found = [None if value is None else getattr(value, column.attribute) for value in values]
    return value_array(column, found, kind, spell, "write JSON: there every value has its place")


def struct_array(
    columns: list[FieldColumn], values: list[Any], kind: Any, spell: Callable[[int], str]
) -> "pyarrow.Array":
    """Messages as one column with their fields within; null where there is no message."""
    import pyarrow

    arrays = [
        field_array(column, values, kind.field(number).type, spell) for number, column in enumerate(columns)
    ]
    absent = pyarrow.array([value is None for value in values])
    return pyarrow.StructArray.from_arrays(arrays, fields=list(kind), mask=absent)
