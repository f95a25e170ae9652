"""A group's offset before the decided commands: a broker that has just come back may still return an old offset."""

import math
from dataclasses import replace

import pytest

from tests.support.commands import increments
from tests.support.harness import IMPATIENT, TopicHarness
from tests.support.owners import quietly, running
from tests.support.raw_requests import raw
from tests.support.topic_loss import move_group
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("one-outcome")
@pytest.mark.usefixtures("without_warm_up")
@pytest.mark.parametrize("machine", ["state", "another"], ids=["by the shard", "by the log"])
def test_old_offset_is_not_claimed(
    counters: TopicHarness, capsys: pytest.CaptureFixture[str], machine: str
) -> None:
    """An owner does not claim at an offset before the decided commands, because it would move the group back."""
    counters.send(*increments(5))
    quietly(counters.plan())
    offset, claim = counters.standing()
    assert offset is not None and claim is not None
    counters.send(*increments(5, first=5))
    plan = counters.plan(timing=replace(IMPATIENT, inconsistency_timeout=math.inf), machine=machine)
    move_group(counters, 2)
    with running(plan) as late:
        eventually(
            lambda: "the group's offset is 2, and later commands are decided" in capsys.readouterr().err
        )
        assert counters.standing() == (2, None)
        with raw(counters.connection) as broker:  # the broker has caught up
            broker.commit(
                counters.topics.group, counters.topics.commands, 0, offset, claim.metadata().encode()
            )
        assert late.error() is None
    assert [outcome.data.version for outcome in counters.outcomes()] == list(range(1, 11))
    counters.check(machine)
