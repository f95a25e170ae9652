"""The memory limit of a replay task."""

from collections.abc import Callable

from cqrs_cli.system.memory import process_memory

#: With fewer aggregates the limit counts as not reached, because then something else uses the memory.
MIN_AGGREGATES = 1_000

#: The tolerance above the limit, as a factor, because the size of the reader's buffers varies.
_SLACK = 1.05


class MemoryLimit:
    """Detects that the aggregates need more than `limit` bytes of this process.

    Python reuses freed memory for new objects, and does not return it to the system. So when the limit is reached,
    the number of aggregates at that time becomes the maximum. The maximum is lowered if aggregates grow.
    """

    def __init__(
        self,
        limit: int,
        memory_in_use: Callable[[], int] = process_memory,
        min_aggregates: int = MIN_AGGREGATES,
    ) -> None:
        self._memory_in_use, self._min_aggregates = memory_in_use, min_aggregates
        self._max_aggregates: int | None = None
        # Memory that an earlier task has freed still counts as used.
        self._limit = max(limit, int(memory_in_use() * _SLACK))

    def is_reached(self, aggregates: int) -> bool:
        """True if the process holds too many aggregates."""
        if aggregates < self._min_aggregates:
            return False
        used = self._memory_in_use()
        if used <= self._limit:
            return self._max_aggregates is not None and aggregates >= self._max_aggregates
        self._limit = int(used * _SLACK)
        self._max_aggregates = (
            aggregates if self._max_aggregates is None else min(self._max_aggregates, aggregates)
        )
        return True
