"""Converts librdkafka's messages to `Record` objects."""

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import Message

from cqrs_cli.core.messages.record import UNREADABLE_HEADERS, Headers, Record

#: Returns the headers of a message, or raises an error. For a header name that is not UTF-8, confluent-kafka (2.16)
#: returns a broken list, and leaves an exception set. Python's optimized calls do not notice such an exception; a
#: `methodcaller` always raises it.
_headers: Callable[[Any], Headers | None] = methodcaller("headers")

_make_record: Callable[..., Record] = Record


# Any, because the stubs allow None for values that a delivered message always has.
def records_of(messages: Sequence[Any]) -> list[Record]:
    """Convert messages to records. All offsets are read first, then all timestamps, and so on: this costs half as much
    as converting one message at a time.
    """
    timestamps = [timestamp for _, timestamp in map(Message.timestamp, messages)]
    columns = (
        map(Message.offset, messages),
        timestamps,
        map(Message.key, messages),
        map(Message.value, messages),
    )
    return list(map(_make_record, *columns, _readable_headers(messages)))


def _readable_headers(messages: Sequence[Any]) -> list[Headers | None]:
    """Return the headers of each message. `headers` is called once for each message, because a second call after an
    error returns wrong headers.
    """
    headers: list[Headers | None] = []
    remaining_headers = map(_headers, messages)
    while len(headers) < len(messages):
        try:
            headers.extend(remaining_headers)
        except (SystemError, UnicodeDecodeError):  # the headers of earlier messages are already in the list
            headers.append(UNREADABLE_HEADERS)
    return headers
