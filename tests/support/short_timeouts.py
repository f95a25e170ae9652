"""Readers with a short timeout."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cqrs_cli.kafka import readers


@contextmanager
def short_read_timeout() -> Iterator[None]:
    """Let readers soon give up on records that they cannot read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers.read_with, "__defaults__", (10_000, 0.5))
        yield
