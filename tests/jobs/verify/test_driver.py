"""Topics that owners decided have no violations, also after losses and retention that an operator may cause."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.jobs.verify.driver import verify_in_process, verify_topics
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.scans.verify.plan import plan_verify
from tests.support.commands import command, mixed_commands
from tests.support.foreign_records import append_records
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error, running_owners
from tests.support.topic_loss import delete_group, delete_records_before, recreate_topics
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext
from tests.jobs.verify.verification import verify

pytestmark = pytest.mark.kafka


def test_decided_topics_are_clean(decided_bank: TopicHarness) -> None:
    report = verify(decided_bank)
    assert report.violations == []
    outcomes = [outcome for partition in range(2) for outcome in decided_bank.outcomes(partition)]
    assert (report.total("commands"), report.total("outcomes")) == (300, 300)
    assert report.total("events") == sum(outcome.data.events for outcome in outcomes)
    assert report.total("dead_letters") == sum(outcome.data.status == "failed" for outcome in outcomes)
    assert report.total("aggregates") == sum(
        len(decided_bank.shard_states(partition=partition)) for partition in range(2)
    )


def test_undecided_commands_are_clean(decided_bank: TopicHarness) -> None:
    decided_bank.send(*mixed_commands(50, seed=2))
    assert decided_bank.violations() == []


def test_empty_topics_are_clean(bank: TopicHarness) -> None:
    assert bank.violations() == []


@pytest.mark.covers("verifiable")
def test_working_owner_causes_no_violation(decided_bank: TopicHarness) -> None:
    with running_owners(decided_bank.plan(once=False)) as owner:
        for seed in range(5):
            decided_bank.send(*mixed_commands(2000, seed=seed))
            assert decided_bank.violations() == []
        eventually(lambda: decided_bank.position_and_claim()[0] == decided_bank.stable_end("commands"))
        assert not owner.has_ended()
    assert decided_bank.violations("state") == []


def test_deleted_commands_are_counted(decided_bank: TopicHarness) -> None:
    delete_records_before(decided_bank, "commands", 20)
    report = verify(decided_bank)
    assert (report.deleted_total("commands"), report.violations) == (20, [])


def test_deleted_outcomes_are_counted(decided_bank: TopicHarness) -> None:
    delete_records_before(decided_bank, "outcomes", decided_bank.records("outcomes")[30].offset)
    report = verify(decided_bank)
    assert (report.deleted_total("outcomes"), report.violations) == (30, [])


def test_deleted_events_are_a_violation(decided_bank: TopicHarness) -> None:
    offset = decided_bank.records("events")[3].offset
    delete_records_before(decided_bank, "events", offset)
    first = next(violation for violation in verify(decided_bank).violations if violation.kind == "events")
    assert str(first) == (
        f"{decided_bank.topics.events} partition 0 offset {offset} is where the log starts: events were deleted"
    )


def test_lost_committed_offset_is_clean(decided_bank: TopicHarness) -> None:
    delete_group(decided_bank)
    assert decided_bank.violations() == []


def test_accepted_loss_is_counted(counters: TopicHarness) -> None:
    counters.send(*(command("counter.Increment", "a", f"i{n}") for n in range(10)))
    run_plan(counters.plan())
    recreate_topics(counters, "events")
    counters.send(command("counter.Increment", "a", "last"))
    error = run_plan_for_error(counters.plan())
    assert error is not None and error.exit_code == 5
    assert len(counters.violations()) == 11  # also of the claim, which names the old topic
    run_plan(counters.plan(accept_loss=["counter:0@10"]))
    report = verify(counters)
    assert (report.total("accepted_losses"), report.violations) == (11, [])


def test_new_commands_topic_must_be_accepted(
    counters: TopicHarness,
) -> None:
    counters.send(*(command("counter.Increment", "a", f"i{n}") for n in range(5)))
    run_plan(counters.plan())
    recreate_topics(counters, "commands")
    counters.send(*(command("counter.Increment", "a", f"j{n}") for n in range(2)))
    assert counters.violations() != []  # deleting a topic also deleted its committed offset
    run_plan(counters.plan(accept_loss=["counter:0@0"]))
    report = verify(counters)
    assert (report.total("accepted_losses") > 0, report.violations) == (True, [])


def test_open_transaction_is_waited_for(decided_bank: TopicHarness) -> None:
    open_producer = producer(decided_bank.connection, transactional_id=f"{decided_bank.topics.prefix}foreign")
    open_producer.init_transactions(10)
    open_producer.begin_transaction()
    open_producer.produce(decided_bank.topics.outcomes, b"?", partition=0)
    assert open_producer.flush(10) == 0
    plan = plan_verify(decided_bank.connection, decided_bank.topics, decided_bank.settings)
    with pytest.raises(UnavailableError, match=f"open transaction {decided_bank.topics.prefix}foreign"):
        verify_in_process(replace(plan, transaction_timeout=3.0))
    open_producer.abort_transaction(10)
    assert decided_bank.violations() == []


@pytest.mark.spark
@pytest.mark.slow
def test_spark_verifies_all_partitions(decided_bank: TopicHarness, spark: "SparkContext") -> None:
    (offset,) = append_records(decided_bank, "events", decided_bank.records("events", 1)[3], partition=1)
    plan = plan_verify(decided_bank.connection, decided_bank.topics, decided_bank.settings)
    spark_summary, process_summary = verify_topics(spark, plan), verify_in_process(plan)
    assert spark_summary._replace(seconds=0.0) == process_summary._replace(seconds=0.0)
    assert [
        (violation.kind, violation.partition, violation.offset) for violation in spark_summary.violations
    ] == [("events", 1, offset)]


def test_missing_topics_are_a_configuration_error(
    connection: Connection, prefix: str, bank: TopicHarness
) -> None:
    with pytest.raises(ConfigurationError, match="create what is missing: cqrs init counter"):
        plan_verify(connection, Topics("counter", prefix), bank.settings)
