"""Simulating the history of a repartitioned aggregate: a partition is decided together with its child partitions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.jobs.whatif import WhatifSummary, decide_partition_again, summarize
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.whatif.plan import plan_whatif
from tests.deciding.repartitioned_counters import counters, repartition_twice, round_commands
from tests.support import AGGREGATES, ROOT
from tests.support.foreign_records import append_records, changed_record
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import count_reasons, repartition_topics, with_stale_partition

pytestmark = pytest.mark.kafka

Simulate = Callable[..., WhatifSummary]


@pytest.fixture
def repartitioned(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    harness = counters(connection, prefix, tmp_path, 1)
    repartition_twice(harness)
    return harness


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    """A function that decides all commands again, with the code of `module`. `drafts.twice` counts twice."""
    (tmp_path / "aggregates").symlink_to(AGGREGATES)
    (tmp_path / "drafts").mkdir()
    source = (AGGREGATES / "counter.py").read_text()
    changed_source = source.replace("yield Incremented(by)", "yield from [Incremented(by)] * 2")
    (tmp_path / "drafts" / "twice.py").write_text(changed_source)

    def run_simulation(
        counters: TopicHarness, module: str = "aggregates.counter", **times: Any
    ) -> WhatifSummary:
        settings = counters.settings.model_copy(update={"root": tmp_path})
        plan = plan_whatif(counters.connection, counters.topics, settings, module, **times)
        results = [decide_partition_again(plan, number) for number in plan.families]
        assert [result.error for result in results] == [None]
        return summarize(results, 1.0)

    return run_simulation


def test_same_code_makes_no_difference(simulate: Simulate, repartitioned: TopicHarness) -> None:
    summary = simulate(repartitioned)
    assert (dict(summary.counts), summary.aggregates) == ({}, 12)
    assert summary.commands == sum(len(repartitioned.outcomes(number)) for number in range(4))


def test_other_code_is_compared_once(simulate: Simulate, repartitioned: TopicHarness) -> None:
    """Each command is compared where it was decided, and each aggregate where it is now."""
    summary = simulate(repartitioned, "drafts.twice")
    accepted_count = sum(count_reasons(repartitioned, number)["accepted"] for number in range(4))
    assert (summary.counts["events", "accepted", "accepted"], summary.differing_states) == (
        accepted_count,
        12,
    )


def test_periods_may_start_and_end_anywhere(simulate: Simulate, repartitioned: TopicHarness) -> None:
    times = sorted(
        {record.timestamp for number in range(4) for record in repartitioned.records("commands", number)}
    )
    counts = [
        simulate(repartitioned, since=time).counts + simulate(repartitioned, until=time).counts
        for time in times[::3]
    ]
    assert len(counts) > 2 and counts == [{}] * len(counts)


def test_child_starts_as_early_as_its_parent(
    simulate: Simulate, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    """The child's commands are older than the period, but were decided after the parent's decisions in the period."""
    harness = counters(connection, prefix, tmp_path, 1)
    harness.send(*round_commands(0))
    run_plan(harness.plan())
    repartition_topics(harness, 2)
    harness.send(*round_commands(1))
    harness.send(*(with_stale_partition(record, 1) for record in round_commands(2)))
    run_plan(harness.plan())
    late_command = next(record for record in harness.records("commands", 0) if b".2" in (record.value or b""))
    assert simulate(harness, "drafts.twice", since=late_command.timestamp).differing_states == 12


def test_unreadable_event_on_child_partition_is_named(repartitioned: TopicHarness, tmp_path: Path) -> None:
    append_records(
        repartitioned,
        "events",
        changed_record(repartitioned.records("events", 3)[-1], type="counter.Gone", aggregateversion=99),
        partition=3,
    )
    settings = repartitioned.settings.model_copy(update={"root": ROOT})
    plan = plan_whatif(repartitioned.connection, repartitioned.topics, settings, "aggregates.counter")
    assert "counter.events partition 3 offset" in str(decide_partition_again(plan, 0).error)
