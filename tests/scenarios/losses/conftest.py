"""Counters of which some commands were decided before something is lost."""

import pytest

from tests.support.commands import increments
from tests.support.harness import TopicHarness
from tests.support.owners import quietly


@pytest.fixture
def decided(counters: TopicHarness) -> TopicHarness:
    """Five counted commands, decided."""
    counters.send(*increments(5))
    quietly(counters.plan())
    return counters
