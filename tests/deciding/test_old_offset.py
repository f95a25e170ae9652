"""A group's offset before the decided commands: a broker that has just come back may still return an old offset."""

import math
from dataclasses import replace

import pytest

from tests.support.commands import increment_commands
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.raw_requests import raw_client
from tests.support.topic_loss import set_group_offset
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("one-outcome")
@pytest.mark.usefixtures("without_warm_up")
@pytest.mark.parametrize("machine", ["state", "another"], ids=["by the shard", "by the log"])
def test_old_offset_is_not_claimed(
    counters: TopicHarness, capsys: pytest.CaptureFixture[str], machine: str
) -> None:
    """An owner does not claim at an offset before the decided commands, because it would move the group back."""
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    offset, claim = counters.position_and_claim()
    assert offset is not None and claim is not None
    counters.send(*increment_commands(5, first=5))
    plan = counters.plan(timing=replace(SHORT_TIMEOUTS, inconsistency_timeout=math.inf), machine=machine)
    set_group_offset(counters, 2)
    with running_owners(plan) as owner:
        eventually(
            lambda: "the group's offset is 2, and later commands are decided" in capsys.readouterr().err
        )
        assert counters.position_and_claim() == (2, None)
        with raw_client(counters.connection) as broker:  # the broker has caught up
            broker.commit(
                counters.topics.group, counters.topics.commands, 0, offset, claim.metadata().encode()
            )
        assert owner.error() is None
    assert [outcome.data.version for outcome in counters.outcomes()] == list(range(1, 11))
    counters.check(machine)
