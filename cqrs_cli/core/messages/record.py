"""A record of a topic, as a value: what was read, before anybody has looked into it."""

from msgspec import Struct

Headers = list[tuple[str, bytes | None]]

#: Headers with a name that is no UTF-8: the client reads none of such a record's. Known by identity.
UNREADABLE: Headers = [("cqrs.unreadable", None)]


class Record(Struct, frozen=True, gc=False):
    """One Kafka record. `timestamp` is the broker's, in ms since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers | None = None
