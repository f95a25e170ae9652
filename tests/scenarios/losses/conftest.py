"""Counters with decided commands, before a loss."""

import pytest

from tests.support.commands import increments
from tests.support.harness import TopicHarness
from tests.support.owners import quietly


@pytest.fixture
def decided(counters: TopicHarness) -> TopicHarness:
    """Five increments, decided."""
    counters.send(*increments(5))
    quietly(counters.plan())
    return counters
