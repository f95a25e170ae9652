"""The value type for a Kafka record that was read."""

from msgspec import Struct

Headers = list[tuple[str, bytes | None]]

#: The headers of a record that has a header name in invalid UTF-8: the Kafka client then returns no header at all.
#: Callers compare it by identity.
UNREADABLE_HEADERS: Headers = [("cqrs.unreadable", None)]


def is_text(key: bytes | None) -> bool:
    """True for a key that can be a subject: it is not empty, and valid UTF-8."""
    try:
        return key is not None and bool(key.decode())
    except UnicodeDecodeError:
        return False


class Record(Struct, frozen=True, gc=False):
    """A Kafka record. The broker sets `timestamp`, in ms since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers | None = None
