"""Counters with decided commands, before a loss."""

import pytest

from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan


@pytest.fixture
def decided_counters(counters: TopicHarness) -> TopicHarness:
    """Five increments, decided."""
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    return counters
