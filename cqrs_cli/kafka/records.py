"""Converts the messages that librdkafka delivers to records."""

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import Message

from cqrs_cli.core.messages.record import UNREADABLE_HEADERS, Headers, Record

#: For a header name that is not UTF-8, confluent-kafka (2.16) returns a broken list and leaves an exception set. In
#: code that runs often, Python does not check for an exception after a call; a `methodcaller` always checks, and raises
#: the exception.
_headers: Callable[[Any], Headers | None] = methodcaller("headers")

_record: Callable[..., Record] = Record


# Any, because the stubs allow None for values that a delivered message always has.
def records_of(messages: Sequence[Any]) -> list[Record]:
    """Convert messages to records, column by column, at half the cost of message by message."""
    timestamps = [timestamp for _, timestamp in map(Message.timestamp, messages)]
    columns = (
        map(Message.offset, messages),
        timestamps,
        map(Message.key, messages),
        map(Message.value, messages),
    )
    return list(map(_record, *columns, _readable_headers(messages)))


def _readable_headers(messages: Sequence[Any]) -> list[Headers | None]:
    """Return the headers of each message. Each message is asked once, since a second call returns wrong headers."""
    headers: list[Headers | None] = []
    remaining_headers = map(_headers, messages)
    while len(headers) < len(messages):
        try:
            headers.extend(remaining_headers)
        except (SystemError, UnicodeDecodeError):  # earlier headers are in the list
            headers.append(UNREADABLE_HEADERS)
    return headers
