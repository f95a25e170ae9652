"""Readers that do not wait for long."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.partition_log import PartitionLog


@contextmanager
def impatience() -> Iterator[None]:
    """Readers soon give up on what they cannot read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers.read_with, "__defaults__", (10_000, 0.5))
        patch.setattr(readers.last_record, "__defaults__", (0.5,))
        patch.setattr(PartitionLog.committed_by, "__defaults__", (0.5,))
        yield
