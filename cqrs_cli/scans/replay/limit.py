"""The memory that a replay may use."""

from collections.abc import Callable

from cqrs_cli.system.memory import process_memory

#: Fewer aggregates than these are never too many: something else takes the memory.
FEWEST = 1_000

#: Growth beyond the limit that is not counted: the reader's buffers come and go.
_SLACK = 1.05


class MemoryLimit:
    """Says when aggregates are too many for `limit` bytes of this process.

    Python gives freed memory to new objects, not to the system. So the number of aggregates at which the limit was
    reached stays the most there may be, unless they become larger.
    """

    def __init__(self, limit: int, used: Callable[[], int] = process_memory, fewest: int = FEWEST) -> None:
        self._used, self._fewest = used, fewest
        self._most: int | None = None
        self._limit = max(limit, int(used() * _SLACK))  # an earlier task may have left free memory

    def is_reached(self, aggregates: int) -> bool:
        """True if there are too many."""
        if aggregates < self._fewest:
            return False
        used = self._used()
        if used <= self._limit:
            return self._most is not None and aggregates >= self._most
        self._limit = int(used * _SLACK)
        self._most = aggregates if self._most is None else min(self._most, aggregates)
        return True
