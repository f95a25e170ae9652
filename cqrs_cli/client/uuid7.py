"""UUIDs of version 7: ids that sort by the time they were made, so that indexes keep them close."""

import uuid_utils


def uuid7() -> str:
    """A new id. Ids rise strictly within a process, also when the clock steps back (RFC 9562, section 6.2)."""
    return str(uuid_utils.uuid7())
