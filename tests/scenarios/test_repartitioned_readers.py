"""Readers of whole logs after a repartitioning: each key has its complete history, once, in order."""

import json
from pathlib import Path

import pytest

from cqrs_cli.client.history import find_ranges, fold_history, parse_at, read_records
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
def grown(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Counters decided before and after a repartitioning, and with a second repartitioning that has not split yet."""
    counters_log = counters(connection, prefix, tmp_path)
    counters_log.send(*round_commands(0), *round_commands(1))
    run_plan(counters_log.plan())
    eventually(lambda: counters_log.is_stable("events"))
    repartition_topics(counters_log, 4)
    counters_log.send(*round_commands(2))
    run_plan(counters_log.plan())
    repartition_topics(counters_log, 8)
    return counters_log


def test_replay_reads_the_chain(grown: TopicHarness) -> None:
    plan = plan_replay(grown.connection, grown.topics, "aggregates", ROOT)
    before = replay_total(plan)
    assert before[:2] == (12, 36)
    run_plan(grown.plan())
    assert replay_total(plan) == before and as_hex(before.digest) == grown.digest()


def test_past_before_the_growth_is_read(grown: TopicHarness) -> None:
    """The replay uses the positions of the partitions at that time."""
    positions = {number: sum(1 for _ in grown.records("events", number)) for number in range(2)}
    plan = plan_replay(grown.connection, grown.topics, "aggregates", ROOT, positions=positions)
    assert len(plan.tasks) == 2 and replay_total(plan).aggregates == 12


def test_history_is_along_the_chain(grown: TopicHarness) -> None:
    for subject in SUBJECTS:
        key = subject.encode()
        ranges = find_ranges(grown.connection, grown.topics, key, "murmur2")
        records = read_records(grown.connection, key, ranges)
        history = fold_history(grown.aggregate, subject, records, parse_at(None))
        assert [
            (event.aggregateversion, event.causationid) for event in history.events
        ] == expected_histories(0, 1, 2)[subject]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_export_has_each_event_once(grown: TopicHarness) -> None:
    plan = plan_export(grown.connection, grown.topics, "aggregates", ROOT)
    versions: dict[str, list[int]] = {}
    for home in plan.chains.current_partitions:
        for batch in exported_rows(plan, home, "jsonl"):
            for line in batch.column(0).to_pylist():
                event = json.loads(line)
                versions.setdefault(event["subject"], []).append(event["aggregateversion"])
    assert versions == {subject: [1, 2, 3] for subject in SUBJECTS}


def test_growth_by_hand_is_not_read(grown: TopicHarness) -> None:
    add_partitions_by_hand(grown, 9)
    with pytest.raises(ConfigurationError, match="have 9 partitions, but its partition history ends with 8"):
        plan_replay(grown.connection, grown.topics, "aggregates", ROOT)
