"""The results of runs with several partitions."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.deciding.plan import OwnerResult, Partition, Plan
from cqrs_cli.errors import CqrsError, TakenOverError, UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL
from tests.support.commands import increment_commands
from tests.support.driver import FakeSparkContext, run_driver
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan_task

pytestmark = pytest.mark.kafka


def test_most_serious_error_is_raised(connection: Connection, prefix: str, tmp_path: Path) -> None:
    counters = TopicHarness(connection, prefix, tmp_path, partitions=2)

    def end_with_two_errors(plan: Plan) -> list[OwnerResult]:
        return [
            OwnerResult(Partition("counter", 0), UnavailableError("gone"), ("a note",)),
            OwnerResult(Partition("counter", 1), TakenOverError("taken"), ("another",)),
        ]

    notes: list[str] = []
    with pytest.raises(TakenOverError):
        run_driver(FakeSparkContext(end_with_two_errors), counters.plan(), notes)
    assert notes == ["a note", "another"]


def test_partial_takeover_names_unowned_aggregates(counters: TopicHarness) -> None:
    older_plan = counters.plan()
    other = replace(older_plan.topics["counter"], topics=Topics("other", counters.topics.prefix))
    older_plan = replace(older_plan, topics={**older_plan.topics, "other": other})
    newer_plan = counters.plan()
    run_plan_task(newer_plan)
    results = [OwnerResult(Partition("counter", 0), TakenOverError("taken"))]
    with pytest.raises(TakenOverError) as raised:
        run_driver(FakeSparkContext(lambda _: results), older_plan)
    assert raised.value.message == f"run {newer_plan.run} took over counter; no run decides for other now"
    assert raised.value.hint.endswith(": cqrs run other")


def test_error_fences_the_partitions_too(counters: TopicHarness) -> None:
    def end_with_error(plan: Plan) -> list[OwnerResult]:
        results = run_plan_task(plan)
        return [replace(results[0], error=CqrsError("enough"))]

    counters.send(*increment_commands(3))
    with pytest.raises(CqrsError, match="enough"):
        run_driver(FakeSparkContext(end_with_error), counters.plan())
    _, claim = counters.position_and_claim()
    assert claim and claim.attempt == TERMINAL and claim.counts.commands == 3
