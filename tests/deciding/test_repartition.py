"""Repartitioning: refused requests, two concurrent operators, and continuing an interrupted call."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cqrs_cli.deciding.repartition import (
    AggregatePartitions,
    PlannedRepartitioning,
    plan_repartitioning,
    repartition,
)
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import KINDS
from cqrs_cli.keyspace.added_partitions import create_lineage_topic
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.ownership.claim import TERMINAL
from tests.deciding.log_states import claim
from tests.deciding.repartitioned_counters import check_decided_once, counters, round_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import add_partitions_by_hand, current_lineage
from tests.support.sampling import sample_cases
from tests.support.topic_loss import add_partitions

OWN_CLAIM = claim(lineage=1)


def current_partitions(count: int = 4, counts: tuple[int, ...] = (4,), **members: Any) -> AggregatePartitions:
    default_partitions = AggregatePartitions(
        "bank", dict.fromkeys(KINDS, count), PartitionLineage(counts), len(counts) > 1, (OWN_CLAIM,)
    )
    return default_partitions._replace(**members)


def expected_plan(before: int, after: int, has_lineage: bool) -> PlannedRepartitioning:
    return PlannedRepartitioning(
        before, after, has_lineage, KeySpace(PartitionLineage((4, after)), "murmur2")
    )


@pytest.mark.parametrize("after", [8, 12])
def test_multiples_are_accepted(after: int) -> None:
    assert plan_repartitioning(current_partitions(), after, "murmur2") == expected_plan(4, after, False)


def test_interrupted_repartitioning_is_completed() -> None:
    """The request exists, and all, some or none of the topics are extended."""
    for count in (4, 8):
        assert plan_repartitioning(current_partitions(count, (4, 8)), 8, "murmur2") == expected_plan(
            8, 8, True
        )


@pytest.mark.kafka
def test_commands_extended_by_hand_are_completed(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "counter", partitions=1)
    add_partitions(harness, "commands", partitions=2)
    planned = repartition(connection, harness.topics, 2, "murmur2", lambda text: None)
    assert (planned.before, planned.after) == (1, 2)


def test_manual_extension_is_adopted() -> None:
    assert plan_repartitioning(current_partitions(8), 8, "murmur2") == expected_plan(4, 8, False)


@pytest.mark.parametrize(
    ("partitions", "after", "message"),
    [
        (current_partitions(), 2, "Kafka cannot remove partitions"),
        (current_partitions(), 4, "bank already has 4 partitions"),
        (current_partitions(), 6, "6 is not a multiple of the 4 partitions"),
        (current_partitions(12), 8, "bank has 12 partitions"),
        (current_partitions(12), 14, "choose 12, 16 or a greater multiple of 4"),
        (current_partitions(9), 8, "added by hand: --partitions 12"),
    ],
)
def test_other_numbers_are_refused(partitions: AggregatePartitions, after: int, message: str) -> None:
    with pytest.raises(UsageError) as error:
        plan_repartitioning(partitions, after, "murmur2")
    assert message in str(error.value)


def test_older_owners_are_refused() -> None:
    """Owners that have ended do not count."""
    older = replace(OWN_CLAIM, lineage=0)
    with pytest.raises(ConfigurationError, match="a version of cqrs without repartitioning"):
        plan_repartitioning(current_partitions(claims=(OWN_CLAIM, older)), 8, "murmur2")
    assert (
        plan_repartitioning(
            current_partitions(claims=(replace(older, attempt=TERMINAL),)), 8, "murmur2"
        ).after
        == 8
    )


def test_unknown_partitioner_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the partition of a key is unknown"):
        plan_repartitioning(current_partitions(), 8, "none")


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


class OperatorKilled(BaseException):
    """The death of the operator's process, in a test."""


def partition_counts(harness: TopicHarness) -> set[int]:
    """Return the partition counts of the five topics."""
    with Admin(harness.connection) as admin:
        return {len(admin.leader_flags(harness.topics.name(kind))) for kind in KINDS}


def run_killed_operator(harness: TopicHarness, after: int, nth: int) -> None:
    """Let an operator's process die after step `nth`, unless the request is refused before."""
    steps: list[str] = []

    def die(step: str) -> None:
        steps.append(step)
        if len(steps) > nth:
            raise OperatorKilled

    with suppress(OperatorKilled, CqrsError):
        repartition(harness.connection, harness.topics, after, "murmur2", die)


def extend_topics_by_hand(harness: TopicHarness) -> None:
    """Decide a round on two partitions, then add two partitions without a partition history."""
    harness.send(*round_commands(0))
    run_plan(harness.plan())
    add_partitions_by_hand(harness, 4)


def run_repartitioning(harness: TopicHarness, after: int) -> None:
    repartition(harness.connection, harness.topics, after, "murmur2")
    harness.partitions = after
    harness.reconnect()


@pytest.mark.kafka
def test_extended_topic_is_not_changed(harness: TopicHarness) -> None:
    """Another operator was first, and the broker of the previous request did not know that yet."""
    with Admin(harness.connection) as admin:
        admin.add_partitions(harness.topics.events, 2)
        assert len(admin.leader_flags(harness.topics.events)) == 2


@pytest.mark.covers("growing")
@pytest.mark.kafka
@pytest.mark.parametrize("requested", [(4, 6), (4, 4)])
def test_two_operators_come_to_one_result(harness: TopicHarness, requested: tuple[int, int]) -> None:
    errors: list[CqrsError] = []

    def operate(after: int) -> None:
        try:
            repartition(harness.connection, harness.topics, after, "murmur2")
        except CqrsError as error:
            errors.append(error)

    threads = [threading.Thread(target=operate, args=(after,)) for after in requested]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (first, second) = current_lineage(harness).counts
    assert first == 2 and second in requested and len(errors) == len(set(requested)) - 1
    assert partition_counts(harness) == {second}


@pytest.mark.covers("growing")
@pytest.mark.kafka
def test_lineage_without_request_adopts_nothing(harness: TopicHarness) -> None:
    """A run does not take over the topics' partition count if the operator died before the request."""
    extend_topics_by_hand(harness)
    with Admin(harness.connection) as admin:
        create_lineage_topic(admin, harness.topics)
    with pytest.raises(ConfigurationError, match="had 2 partitions and now has 4"):
        harness.plan()


@pytest.mark.kafka
@pytest.mark.parametrize("first", sample_cases([0, 1, 2], 2))
@pytest.mark.parametrize("second", sample_cases([0, 1, 2], 1))
def test_killed_operators_come_to_one_result(harness: TopicHarness, first: int, second: int) -> None:
    """The first request counts although neither operator completed it. Repeating this request completes it."""
    run_killed_operator(harness, 4, first)
    run_killed_operator(harness, 6, second)
    refusals = 0
    for after in (6, 4):
        try:
            run_repartitioning(harness, after)
        except CqrsError:
            refusals += 1
    assert refusals == 1 and current_lineage(harness).counts == (2, harness.partitions)
    assert partition_counts(harness) == {harness.partitions}


@pytest.mark.covers("growing")
@pytest.mark.kafka
def test_manually_extended_topics_are_adopted(harness: TopicHarness) -> None:
    extend_topics_by_hand(harness)
    run_repartitioning(harness, 4)
    harness.send(*round_commands(1))
    run_plan(harness.plan())
    check_decided_once(harness, 0, 1)
