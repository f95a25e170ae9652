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
def grown(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Counters that were repartitioned from one partition to two."""
    single = counters(connection, prefix, tmp_path, 1)
    single.send(*round_commands(0))
    run_plan(single.plan())
    repartition_topics(single, 2)
    return single


def test_a_finished_growth_costs_nothing(grown: TopicHarness) -> None:
    """The driver has read the partition history, so owners make no request for it."""
    run_plan(grown.plan())
    plan = grown.plan()
    (seen,) = plan.lineages.values()
    offline = replace(plan, connection=Connection("127.0.0.1:1"))
    for partition in plan.partitions():
        afresh = replace(plan, lineages={}).read_assigned_keys(partition)
        assert (
            offline.read_assigned_keys(partition, (0, seen.end))
            == offline.read_assigned_keys(partition)
            == afresh
        )
        assert (
            plan.read_assigned_keys(partition, (0, 1)) != afresh
        )  # with another end offset the history is read; this range has only the request


@pytest.mark.covers("growing")
def test_owners_see_a_later_growth(grown: TopicHarness) -> None:
    """Owners notice a later repartitioning, whose partitions another run has split."""
    run_plan(grown.plan())
    old = grown.plan(once=False)
    repartition_topics(grown, 4)
    between = grown.plan()
    run_plan(between)
    with running_owners(replace(old, run_epoch=between.run_epoch + 1)):
        grown.send(*(with_stale_partition(one, 2) for one in round_commands(1)))
        moved = sum(grown.partition_of(one) > 1 for one in SUBJECTS)
        eventually(lambda: sum(count_reasons(grown, one)["MOVED"] for one in (0, 1)) == moved)
    run_plan(grown.plan())
    check_decided_once(grown, 0, 1)
