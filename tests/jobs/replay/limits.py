"""Limits of memory that a test reaches."""

from cqrs_cli.scans.replay.limit import MemoryLimit


class MaxAggregates(MemoryLimit):
    """A limit of `count` aggregates."""

    def __init__(self, count: int) -> None:
        super().__init__(1)
        self._count = count

    def is_reached(self, aggregates: int) -> bool:
        return aggregates > self._count
