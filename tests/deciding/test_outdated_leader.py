"""The leader of the logs is cut off and still answers, and the group's offset is older than the last decisions."""

import math
from dataclasses import fields
from typing import Any, ClassVar

import pytest
from confluent_kafka import Consumer

from cqrs_cli import failpoints
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.kafka.topics.topics import Kind
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan
from tests.support.repartitioning import event_history, repartition_topics

pytestmark = pytest.mark.kafka


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


class OutdatedLog(PartitionLog):
    """A log of partition 0 whose leader is cut off: it returns earlier ends, until `outdated_ends` is cleared."""

    outdated_ends: ClassVar[dict[Kind, int]] = {}

    def watermarks(self, client: Consumer, kind: Kind) -> tuple[int, int]:
        start, end = super().watermarks(client, kind)
        return start, self.outdated_ends.get(kind, end) if self.partition == 0 else end


class OutdatedPlan(Plan):
    def log(self, partition: Partition) -> PartitionLog:
        return OutdatedLog(**_fields(Plan.log(self, partition)))


def _leave_outdated_offset(counters: TopicHarness) -> int:
    """Kill an owner after decisions that have not moved the group's offset. Return this offset."""
    process = OwnerProcess(counters.plan(), "commit.after:6:kill", batch_limit=1, position_interval=math.inf)
    assert process.was_killed()
    offset, _ = counters.position_and_claim()
    assert offset is not None and offset < len(counters.outcomes())
    return offset


@pytest.mark.covers("one-outcome")
@pytest.mark.usefixtures("without_warm_up")
def test_outdated_position_decides_no_command_again(counters: TopicHarness) -> None:
    """The outdated leader answers until the position is known; then its successor answers. The outdated leader has the
    records up to the group's offset; each transaction has one outcome and one event, and takes two offsets in each log.
    """
    counters.send(*increment_commands(5))
    offset = _leave_outdated_offset(counters)
    OutdatedLog.outdated_ends.update({"events": 2 * offset, "outcomes": 2 * offset})
    with failpoints.call_at("position.after", OutdatedLog.outdated_ends.clear):
        run_plan(OutdatedPlan(**_fields(counters.plan(machine="another"))))
    assert not OutdatedLog.outdated_ends
    assert [outcome.data.version for outcome in counters.outcomes()] == list(range(1, 6))
    counters.check("another")


@pytest.mark.covers("growing", "no-lost-update")
@pytest.mark.usefixtures("without_warm_up")
def test_split_with_outdated_ends_is_not_committed(counters: TopicHarness) -> None:
    """The outdated leader answers until the owner splits. So the owner finds no command to decide before the split, and
    the offset of no decision reveals the outdated leader.
    """
    subject = next(name for name in "abcdef" if producer_partition("murmur2", name.encode(), 2) == 1)
    counters.send(*increment_commands(5, subject))
    offset = _leave_outdated_offset(counters)
    repartition_topics(counters, 2)
    OutdatedLog.outdated_ends.update({"commands": offset, "events": 2 * offset, "outcomes": 2 * offset})
    with failpoints.call_at("split.before", OutdatedLog.outdated_ends.clear):
        run_plan(OutdatedPlan(**_fields(counters.plan(machine="another"))))
    assert not OutdatedLog.outdated_ends
    counters.send(*increment_commands(3, subject, first=5))
    run_plan(counters.plan(machine="another"))
    assert event_history(counters, subject) == [(number + 1, f"i{number}") for number in range(8)]
    assert counters.violations("another") == []
