"""UUIDs of version 7: ids that sort by creation time, so that new ids are adjacent in an index."""

import uuid_utils


def uuid7() -> str:
    """Return a new id. Within a process ids strictly increase, even if the clock steps back (RFC 9562, section 6.2)."""
    return str(uuid_utils.uuid7())
