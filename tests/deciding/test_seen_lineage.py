"""Owners start after a repartitioning as fast as before, and notice every later repartitioning."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.repartitioned_counters import SUBJECTS, check_decided_once, counters, round_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.repartitioning import count_reasons, repartition_topics, with_stale_partition
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Counters that were repartitioned from one partition to two."""
    counters_harness = counters(connection, prefix, tmp_path, 1)
    counters_harness.send(*round_commands(0))
    run_plan(counters_harness.plan())
    repartition_topics(counters_harness, 2)
    return counters_harness


def test_a_completed_repartitioning_needs_no_request(harness: TopicHarness) -> None:
    """The driver has read the partition history, so owners make no request for it."""
    run_plan(harness.plan())
    plan = harness.plan()
    ((name, planned),) = plan.key_spaces.items()
    unread = replace(plan, key_spaces={name: replace(planned, lineage=None)})
    offline = replace(plan, connection=Connection("127.0.0.1:1"))
    for partition in plan.partitions():
        read_keys = unread.read_assigned_keys(partition)
        assert (
            offline.read_assigned_keys(partition, (0, planned.end or 0))
            == offline.read_assigned_keys(partition)
            == read_keys
        )
        assert (
            plan.read_assigned_keys(partition, (0, 1)) != read_keys
        )  # the end offset differs, so the history is read, here up to the request


@pytest.mark.covers("growing")
def test_owners_notice_a_later_repartitioning(harness: TopicHarness) -> None:
    """Owners notice a later repartitioning, whose partitions another run has split."""
    run_plan(harness.plan())
    old_plan = harness.plan(once=False)
    repartition_topics(harness, 4)
    new_plan = harness.plan()
    run_plan(new_plan)
    with running_owners(replace(old_plan, run_epoch=new_plan.run_epoch + 1)):
        harness.send(*(with_stale_partition(sent, 2) for sent in round_commands(1)))
        moved_count = sum(harness.partition_of(subject) > 1 for subject in SUBJECTS)
        eventually(
            lambda: sum(count_reasons(harness, partition)["MOVED"] for partition in (0, 1)) == moved_count
        )
    run_plan(harness.plan())
    check_decided_once(harness, 0, 1)
