"""Arrow columns for the files that a job writes, typed by the aggregate's classes."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.spark.field_types import FieldColumn, value_array

if TYPE_CHECKING:
    import pyarrow


def time_array(texts: Iterable[str]) -> "pyarrow.Array":
    """Return the time texts of events as an array of timestamps: microseconds, UTC."""
    import pyarrow

    times = pyarrow.array([parse_timestamp(text) * 1000 for text in texts], pyarrow.int64())
    return times.view(pyarrow.timestamp("us", "UTC"))


def field_array(
    column: FieldColumn, messages: list[Any], arrow_type: Any, message_name: Callable[[int], str]
) -> "pyarrow.Array":
    """Return one field of the messages as an array; null where the message is None.

    Raises `CqrsError` for a value that the column cannot hold; `message_name(number)` names the message in the error.
    """
    field_values = [None if message is None else getattr(message, column.attribute) for message in messages]
    return value_array(
        column,
        field_values,
        arrow_type,
        message_name,
        "JSON accepts every value: write files with --format",
    )


def struct_array(
    columns: list[FieldColumn], messages: list[Any], arrow_type: Any, message_name: Callable[[int], str]
) -> "pyarrow.Array":
    """Return the messages as one struct column; null where the message is None."""
    import pyarrow

    arrays = [
        field_array(column, messages, arrow_type.field(number).type, message_name)
        for number, column in enumerate(columns)
    ]
    is_missing = pyarrow.array([message is None for message in messages])
    return pyarrow.StructArray.from_arrays(arrays, fields=list(arrow_type), mask=is_missing)
