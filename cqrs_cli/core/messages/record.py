"""A record of a topic, as a value: the bytes as they were read."""

from msgspec import Struct

Headers = list[tuple[str, bytes | None]]

#: Stands for headers of which a name is not UTF-8: the client reads no header of such a record. Compared by identity.
UNREADABLE: Headers = [("cqrs.unreadable", None)]


def is_text(key: bytes | None) -> bool:
    """True for a key that may be a subject: it is not empty, and it is UTF-8."""
    try:
        return key is not None and bool(key.decode())
    except UnicodeDecodeError:
        return False


class Record(Struct, frozen=True, gc=False):
    """One Kafka record. `timestamp` is the broker's, in ms since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers | None = None
