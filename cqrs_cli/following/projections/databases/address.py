"""The place of a projection's tables: a plain value, which travels to tasks."""

from typing import NamedTuple


class DatabaseAddress(NamedTuple):
    """The place of tables and positions: a database, and a schema in it if they are not in its default one."""

    url: str
    schema: str | None = None
    patience: float = 30.0  # seconds that a statement waits for what others hold
