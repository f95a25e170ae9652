"""The address of a projection's tables. It can be pickled, because the driver sends it to tasks."""

from typing import NamedTuple


class DatabaseAddress(NamedTuple):
    """The address of a projection's tables and positions."""

    url: str  # SQLAlchemy's URL of the database
    schema: str | None = None  # None: the default schema
    lock_timeout: float = 30.0  # seconds that a statement waits for locks of other sessions
