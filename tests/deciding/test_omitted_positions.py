"""Batches without the group's position: the next owner takes the position from the outcomes."""

import math
from dataclasses import replace

import pytest

from tests.support.commands import command, increment_commands
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import OwnerProcess, run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("machine", ["state", "another"])
def test_next_owner_continues_after_last_outcome(counters: TopicHarness, machine: str) -> None:
    """A killed owner has committed five commands one by one, and the position only with the first of them."""
    counters.send(*increment_commands(8))
    process = OwnerProcess(counters.plan(), "commit.after:6:kill", batch_limit=1, position_interval=math.inf)
    assert process.was_killed()
    offset, _ = counters.position_and_claim()
    assert offset is not None and offset < len(counters.outcomes())
    run_plan(counters.plan(machine=machine))
    assert [outcome.data.version for outcome in counters.outcomes()] == list(range(1, 9))
    counters.check(machine)


def test_dead_letter_commits_the_position(counters: TopicHarness) -> None:
    """With records in other topics only the position shows whether an in-doubt transaction was committed."""
    counters.send(*increment_commands(3), command("counter.Unknown", "a", "unknown", {}))
    process = OwnerProcess(counters.plan(), "commit.after:5:kill", batch_limit=1, position_interval=math.inf)
    assert process.was_killed()
    offset, _ = counters.position_and_claim()
    assert [outcome.data.status for outcome in counters.outcomes()] == ["accepted"] * 3 + ["failed"]
    assert offset == 4


def test_idle_owner_commits_its_position(counters: TopicHarness) -> None:
    timing = replace(SHORT_TIMEOUTS, position_interval=math.inf)
    counters.send(*increment_commands(2))
    with running_owners(counters.plan(once=False, timing=timing)):
        eventually(lambda: len(counters.outcomes()) == 2)
        counters.send(*increment_commands(2, first=2))
        eventually(lambda: counters.position_and_claim()[0] == 4)
    counters.check()
