"""The address of a projection's tables: a plain value, which is sent to tasks."""

from typing import NamedTuple


class DatabaseAddress(NamedTuple):
    """The address of tables and positions: a database, and a schema if it is not the default schema."""

    url: str
    schema: str | None = None
    lock_timeout: float = 30.0  # timeout of a statement in seconds, while others hold locks
