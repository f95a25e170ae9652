"""The memory limit of a replay task."""

from collections.abc import Callable

from cqrs_cli.system.memory import process_memory

#: With fewer aggregates the limit is never reached: something else uses the memory.
FEWEST = 1_000

#: Tolerance above the limit, because the size of the reader's buffers varies.
_SLACK = 1.05


class MemoryLimit:
    """Detects that the aggregates need more than `limit` bytes of this process.

    Python reuses freed memory for new objects, and does not return it to the system. So the number of aggregates at
    which the limit was reached stays the maximum; larger aggregates lower it.
    """

    def __init__(self, limit: int, used: Callable[[], int] = process_memory, fewest: int = FEWEST) -> None:
        self._used, self._fewest = used, fewest
        self._most: int | None = None
        self._limit = max(limit, int(used() * _SLACK))  # an earlier task may have left free memory

    def is_reached(self, aggregates: int) -> bool:
        """True if the process holds too many aggregates."""
        if aggregates < self._fewest:
            return False
        used = self._used()
        if used <= self._limit:
            return self._most is not None and aggregates >= self._most
        self._limit = int(used * _SLACK)
        self._most = aggregates if self._most is None else min(self._most, aggregates)
        return True
