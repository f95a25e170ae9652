"""Limits of memory that a test reaches."""

from cqrs_cli.scans.replay.limit import MemoryLimit


class Most(MemoryLimit):
    """A limit of `most` aggregates."""

    def __init__(self, most: int) -> None:
        super().__init__(1)
        self._at = most

    def is_reached(self, aggregates: int) -> bool:
        return aggregates > self._at
