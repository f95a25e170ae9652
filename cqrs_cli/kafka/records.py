"""Makes records of the messages that librdkafka delivers."""

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import Message

from cqrs_cli.core.messages.record import UNREADABLE, Headers, Record

#: For a name that is not UTF-8, confluent-kafka (2.16) returns a broken list and leaves an exception behind. Python
#: does not check for one after a frequent call; a `methodcaller` always does, and raises it.
_headers: Callable[[Any], Headers | None] = methodcaller("headers")

_record: Callable[..., Record] = Record


# Any: the stubs allow None where a delivered message has none.
def records_of(messages: Sequence[Any]) -> list[Record]:
    """The records as values of ours. Asked column by column they cost half of asking message by message."""
    timestamps = [timestamp for _, timestamp in map(Message.timestamp, messages)]
    columns = (
        map(Message.offset, messages),
        timestamps,
        map(Message.key, messages),
        map(Message.value, messages),
    )
    return list(map(_record, *columns, _readable_headers(messages)))


def _readable_headers(messages: Sequence[Any]) -> list[Headers | None]:
    """The headers of each. A message is asked once: what a second call gives is not what was sent."""
    found: list[Headers | None] = []
    asked = map(_headers, messages)
    while len(found) < len(messages):
        try:
            found.extend(asked)
        except (SystemError, UnicodeDecodeError):  # those before it are in the list, and it is asked no more
            found.append(UNREADABLE)
    return found
