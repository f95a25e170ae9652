"""Creates Arrow columns from messages, for the files that a job writes."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.spark.field_types import FieldColumn, value_array

if TYPE_CHECKING:
    import pyarrow


def time_array(texts: Iterable[str]) -> "pyarrow.Array":
    """Convert RFC 3339 texts, such as the times of events, into an array of timestamps: microseconds, UTC."""
    import pyarrow

    times = pyarrow.array([parse_timestamp(text) * 1000 for text in texts], pyarrow.int64())
    return times.view(pyarrow.timestamp("us", "UTC"))


def field_array(
    column: FieldColumn, messages: list[Any], arrow_type: Any, message_name: Callable[[int], str]
) -> "pyarrow.Array":
    """Return one field of the messages as an array. The value is null if the message is None.

    Raises `CqrsError` for a value that the column cannot hold. `message_name(index)` returns the name of a message for
    the error.
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
    """Return the messages as one struct column. The value is null if the message is None."""
    import pyarrow

    arrays = [
        field_array(column, messages, arrow_type.field(number).type, message_name)
        for number, column in enumerate(columns)
    ]
    is_missing = pyarrow.array([message is None for message in messages])
    return pyarrow.StructArray.from_arrays(arrays, fields=list(arrow_type), mask=is_missing)
