"""The memory limit of a replay task."""

from collections.abc import Callable

from cqrs_cli.system.memory import process_memory

#: With fewer aggregates the limit never counts as reached: the aggregates cannot be what fills the memory.
MIN_AGGREGATES = 1_000

#: The tolerance above the limit, as a factor, because the size of the reader's buffers varies.
_SLACK = 1.05


class MemoryLimit:
    """Detects that the aggregates need more than `limit` bytes of this process.

    The process does not shrink after aggregates are spilled, because Python keeps freed memory. So when the limit is
    reached for the first time, the number of aggregates becomes the maximum. If the process grows further, the maximum
    is lowered.
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
