"""A decided history on the real broker."""

import pytest

from tests.support.commands import mixture
from tests.support.harness import TopicHarness
from tests.support.owners import quietly


@pytest.fixture
def decided_bank(bank: TopicHarness) -> TopicHarness:
    """Accounts on two partitions, decided by a real owner, with outcomes of all statuses."""
    bank.send(*mixture(300))
    quietly(bank.plan())
    return bank
