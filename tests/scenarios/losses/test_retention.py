"""Retention has deleted records that were decided long ago: the owner continues.

Tests delete records instead of waiting.
"""

from collections.abc import Callable

import pytest

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.topics.topics import Kind
from tests.support.commands import command, increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error
from tests.support.topic_loss import delete_records_before

pytestmark = pytest.mark.kafka

Expire = Callable[..., None]


@pytest.fixture
def expire(counters: TopicHarness) -> Expire:
    """A function that deletes the records of topics, except for the last `keep_last` offsets."""

    def expire(*kinds: Kind, keep_last: int = 0) -> None:
        for kind in kinds:
            delete_records_before(counters, kind, counters.stable_end(kind) - keep_last)

    return expire


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("machine", ["state", "another"])
def test_idle_partition_without_outcomes_continues(
    counters: TopicHarness, expire: Expire, machine: str
) -> None:
    """Records that were decided long ago may be deleted by retention: the owner continues."""
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    expire("commands", "outcomes")
    run_plan(counters.plan(machine=machine))
    counters.send(*increment_commands(2, first=5))
    run_plan(counters.plan(machine=machine))
    assert [(o.data.offset, o.data.version) for o in counters.outcomes()] == [(5, 6), (6, 7)]
    assert counters.violations() == []


@pytest.mark.parametrize("machine", ["state", "another"])
def test_partition_without_events_goes_on(counters: TopicHarness, expire: Expire, machine: str) -> None:
    counters.send(*(command("counter.Reset", "a", f"r{n}") for n in range(3)))
    run_plan(counters.plan())
    assert counters.records("events") == []
    expire("commands", "outcomes")
    for _ in range(2):
        run_plan(counters.plan(machine=machine))
    counters.send(*increment_commands(1))
    run_plan(counters.plan(machine=machine))
    assert [o.data.offset for o in counters.outcomes()] == [3]


def test_shard_older_than_outcomes_catches_up(counters: TopicHarness, expire: Expire) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan(machine="old"))
    counters.send(*increment_commands(5, first=5))
    run_plan(counters.plan(machine="new"))
    expire("outcomes", keep_last=3)
    counters.send(*increment_commands(5, first=8))  # three of them are repetitions
    run_plan(counters.plan(machine="old"))
    statuses = [o.data.status for o in counters.outcomes()][-5:]
    assert statuses == ["duplicate", "duplicate", "accepted", "accepted", "accepted"]


def test_events_have_no_retention(counters: TopicHarness, expire: Expire) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan())
    expire("events", keep_last=2)
    run_plan(counters.plan())  # the shard has the states of the deleted events
    error = run_plan_for_error(counters.plan(machine="another"))
    assert isinstance(error, ContradictionError) and error.exit_code == 5
    assert "the events from offset 0 on were deleted" in error.message and "retention" in error.hint
