"""A decided history on the real broker."""

import pytest

from tests.support.commands import mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan


@pytest.fixture
def decided_bank(bank: TopicHarness) -> TopicHarness:
    """Accounts on two partitions, decided by a real owner, with outcomes of all statuses."""
    bank.send(*mixed_commands(300))
    run_plan(bank.plan())
    return bank
