"""The leader of the logs is cut off and still answers, and the group's offset is older than the last decisions."""

import math
from dataclasses import fields
from typing import Any, ClassVar

import pytest
from confluent_kafka import Consumer

from cqrs_cli import failpoints
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan

pytestmark = pytest.mark.kafka


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


class OutdatedLog(PartitionLog):
    """A log whose leader is cut off: it returns earlier ends, until `outdated_ends` is cleared."""

    outdated_ends: ClassVar[dict[Kind, int]] = {}

    def watermarks(self, client: Consumer, kind: Kind) -> tuple[int, int]:
        start, end = super().watermarks(client, kind)
        return start, self.outdated_ends.get(kind, end)


class OutdatedPlan(Plan):
    def log(self, partition: Partition) -> PartitionLog:
        return OutdatedLog(**_fields(Plan.log(self, partition)))


@pytest.mark.covers("one-outcome")
@pytest.mark.usefixtures("without_warm_up")
def test_outdated_position_decides_no_command_again(counters: TopicHarness) -> None:
    """The outdated leader answers until the position is known; then its successor answers. The outdated leader has the
    records up to the group's offset; each transaction has one outcome and one event, and takes two offsets in each log.
    """
    counters.send(*increment_commands(5))
    process = OwnerProcess(counters.plan(), "commit.after:6:kill", batch_limit=1, position_interval=math.inf)
    assert process.was_killed()
    offset, _ = counters.position_and_claim()
    assert offset is not None and offset < len(counters.outcomes())
    OutdatedLog.outdated_ends.update({"events": 2 * offset, "outcomes": 2 * offset})
    with failpoints.call_at("position.after", OutdatedLog.outdated_ends.clear):
        run_plan(OutdatedPlan(**_fields(counters.plan(machine="another"))))
    assert not OutdatedLog.outdated_ends
    assert [outcome.data.version for outcome in counters.outcomes()] == list(range(1, 6))
    counters.check("another")
