"""Readers of whole logs return the same after repartitionings as for topics that had all partitions from the start."""

import json

import pytest

from cqrs_cli.client.aggregate_logs import find_ranges, read_records
from cqrs_cli.client.history import fold_history, parse_at
from cqrs_cli.errors import ContradictionError
from cqrs_cli.jobs.export.driver import exported_rows, plan_export
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.registry import load
from cqrs_cli.scans.replay.fold import Total
from cqrs_cli.scans.replay.task import replay_part
from tests.support import ROOT
from tests.support.eventlog import append_records, counter_event
from tests.support.repartitioned_log import COUNTER_IDS, GrowingCounters
from tests.support.repartitioning import replay_total

pytestmark = pytest.mark.kafka


def replay(log: GrowingCounters, positions: dict[int, int] | None = None) -> Total:
    return replay_total(
        plan_replay(log.connection, log.topics, "aggregates", ROOT, None, positions, "murmur2")
    )


@pytest.fixture
def log(connection: Connection, prefix: str) -> GrowingCounters:
    return GrowingCounters(connection, Topics("counter", prefix), 4)


def test_repartitioned_log_has_the_same_total(log: GrowingCounters, prefix: str) -> None:
    """The counts are 4, 8 and 16.

    Each step is replayed: topics extended, half split, split, and up to given offsets.
    """
    reference = GrowingCounters(log.connection, Topics("counter", f"{prefix}even."), 16)

    def count_and_compare() -> None:
        log.increment(*COUNTER_IDS)
        reference.increment(*COUNTER_IDS)
        assert replay(log) == replay(reference)

    count_and_compare()
    positions, total_before = {number: log.stable_end(number) for number in range(4)}, replay(reference)
    for count in (8, 16):
        log.request_repartitioning(count)
        count_and_compare()
        log.split(0, 1)
        count_and_compare()
        log.split()
        count_and_compare()
    log.split()  # the targets of the first repartitioning, to 16
    count_and_compare()
    assert replay(log, positions=positions) == total_before
    assert replay(log)[:2] == (len(COUNTER_IDS), sum(log.versions.values()))


def test_repartitioned_log_exports_in_order(log: GrowingCounters) -> None:
    log.increment(*COUNTER_IDS)
    log.request_repartitioning(8)
    log.split()
    log.increment(*COUNTER_IDS)
    plan = plan_export(log.connection, log.topics, "aggregates", ROOT, "murmur2")
    rows = [
        json.loads(row)
        for partition in plan.bounds
        for batch in exported_rows(plan, partition, "jsonl")
        for row in batch.column(0).to_pylist()
    ]
    versions = [(row["subject"], row["aggregateversion"]) for row in rows]
    assert sorted(versions) == sorted((subject, version) for subject in COUNTER_IDS for version in (1, 2))
    assert all(versions.index((subject, 1)) < versions.index((subject, 2)) for subject in COUNTER_IDS)
    for subject in COUNTER_IDS[:8]:
        ranges = find_ranges(log.connection, log.topics, subject.encode(), "murmur2")
        history = fold_history(
            load("counter", "aggregates", ROOT),
            read_records(log.connection, subject.encode(), ranges),
            parse_at(None),
        )
        assert history.version == 2 and len(ranges) == len(
            {log.partition_of(subject), log.partition_of(subject) % 4}
        )


def test_fault_after_repartitioning_names_its_offset(log: GrowingCounters) -> None:
    log.increment(*COUNTER_IDS)
    log.request_repartitioning(8)
    log.split()
    subject = next(subject for subject in COUNTER_IDS if log.partition_of(subject) >= 4)
    append_records(log.connection, log.topics.events, log.partition_of(subject), [counter_event(subject, 3)])
    plan = plan_replay(log.connection, log.topics, "aggregates", ROOT)
    error = replay_part(plan, log.partition_of(subject)).error
    assert isinstance(error, ContradictionError)
    assert f"{log.topics.events}:{log.partition_of(subject)}@0" in str(
        error
    ) or f"partition {log.partition_of(subject)}" in str(error)
