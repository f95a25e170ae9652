"""Readers of whole logs after a repartitioning: each key has its complete history, once, in order."""

import json
from pathlib import Path

import pytest

from cqrs_cli.client.aggregate_logs import find_ranges, read_records
from cqrs_cli.client.history import fold_history, parse_at
from cqrs_cli.core.digest import as_hex
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.jobs.export.driver import exported_rows, plan_export
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.repartitioned_counters import SUBJECTS, counters, expected_histories, round_commands
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import add_partitions_by_hand, repartition_topics, replay_total
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def repartitioned(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Counters decided before and after a repartitioning, and with a second repartitioning that has not split yet."""
    harness = counters(connection, prefix, tmp_path)
    harness.send(*round_commands(0), *round_commands(1))
    run_plan(harness.plan())
    eventually(lambda: harness.is_stable("events"))
    repartition_topics(harness, 4)
    harness.send(*round_commands(2))
    run_plan(harness.plan())
    repartition_topics(harness, 8)
    return harness


def test_replay_reads_parent_partitions_too(repartitioned: TopicHarness) -> None:
    plan = plan_replay(repartitioned.connection, repartitioned.topics, "aggregates", ROOT)
    total = replay_total(plan)
    assert total[:2] == (12, 36)
    run_plan(repartitioned.plan())
    assert replay_total(plan) == total and as_hex(total.digest) == repartitioned.digest()


def test_past_before_the_repartitioning_is_read(repartitioned: TopicHarness) -> None:
    """The replay uses the positions of the partitions at that time."""
    positions = {number: sum(1 for _ in repartitioned.records("events", number)) for number in range(2)}
    plan = plan_replay(
        repartitioned.connection, repartitioned.topics, "aggregates", ROOT, positions=positions
    )
    assert len(plan.tasks) == 2 and replay_total(plan).aggregates == 12


def test_history_includes_parent_partitions(repartitioned: TopicHarness) -> None:
    for subject in SUBJECTS:
        key = subject.encode()
        ranges = find_ranges(repartitioned.connection, repartitioned.topics, key, "murmur2")
        records = read_records(repartitioned.connection, key, ranges)
        history = fold_history(repartitioned.aggregate, records, parse_at(None))
        assert [
            (event.aggregateversion, event.causationid) for event in history.events
        ] == expected_histories(0, 1, 2)[subject]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_export_has_each_event_once(repartitioned: TopicHarness) -> None:
    plan = plan_export(repartitioned.connection, repartitioned.topics, "aggregates", ROOT)
    versions: dict[str, list[int]] = {}
    for partition in plan.key_space.partitions:
        for batch in exported_rows(plan, partition, "jsonl"):
            for line in batch.column(0).to_pylist():
                event = json.loads(line)
                versions.setdefault(event["subject"], []).append(event["aggregateversion"])
    assert versions == {subject: [1, 2, 3] for subject in SUBJECTS}


def test_partitions_added_by_hand_are_refused(repartitioned: TopicHarness) -> None:
    add_partitions_by_hand(repartitioned, 9)
    with pytest.raises(ConfigurationError, match="have 9 partitions, but its partition history ends with 8"):
        plan_replay(repartitioned.connection, repartitioned.topics, "aggregates", ROOT)
