"""Repartitioning: refused requests, two concurrent operators, and continuing an interrupted call."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.deciding.repartition import (
    AggregatePartitions,
    PlannedRepartitioning,
    plan_repartitioning,
    repartition,
)
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.kafka.admin.repartitioning import create_lineage_topic
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import KINDS
from cqrs_cli.ownership.claim import TERMINAL
from tests.deciding.log_states import claim
from tests.deciding.repartitioned_counters import check_decided_once, counters, round_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import add_partitions_by_hand, current_lineage
from tests.support.sampling import sample_cases

OWN_CLAIM = claim(lineage=1)


def current(count: int = 4, counts: tuple[int, ...] = (4,), **members: Any) -> AggregatePartitions:
    default_partitions = AggregatePartitions(
        "bank", dict.fromkeys(KINDS, count), PartitionLineage(counts), len(counts) > 1, (OWN_CLAIM,)
    )
    return default_partitions._replace(**members)


def planned(before: int, after: int, has_lineage: bool) -> PlannedRepartitioning:
    return PlannedRepartitioning(before, after, has_lineage, PartitionLineage((4, after)))


@pytest.mark.parametrize("after", [8, 12])
def test_multiples_are_taken(after: int) -> None:
    assert plan_repartitioning(current(), after, "murmur2") == planned(4, after, False)


def test_growth_is_completed() -> None:
    """The request exists, and all, some or none of the topics are extended."""
    for count in (4, 8):
        assert plan_repartitioning(current(count, (4, 8)), 8, "murmur2") == planned(8, 8, True)


def test_growth_by_hand_is_adopted() -> None:
    assert plan_repartitioning(current(8), 8, "murmur2") == planned(4, 8, False)


@pytest.mark.parametrize(
    ("partitions", "after", "message"),
    [
        (current(), 2, "Kafka cannot remove partitions"),
        (current(), 4, "bank already has 4 partitions"),
        (current(), 6, "6 is not a multiple of the 4 partitions"),
        (current(12), 8, "bank has 12 partitions"),
        (current(12), 14, "choose 12, 16 or a greater multiple of 4"),
        (current(9), 8, "added by hand: --partitions 12"),
    ],
)
def test_other_numbers_are_refused(partitions: AggregatePartitions, after: int, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan_repartitioning(partitions, after, "murmur2")
    assert message in str(refused.value)


def test_older_owners_are_refused() -> None:
    """Owners that have ended do not count."""
    older = replace(OWN_CLAIM, lineage=0)
    with pytest.raises(ConfigurationError, match="a version of cqrs without repartitioning"):
        plan_repartitioning(current(claims=(OWN_CLAIM, older)), 8, "murmur2")
    assert plan_repartitioning(current(claims=(replace(older, attempt=TERMINAL),)), 8, "murmur2").after == 8


def test_unknown_homes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the partition of a key is unknown"):
        plan_repartitioning(current(), 8, "none")


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


class Killed(BaseException):
    """The death of the operator's process, in a test."""


def grown(harness: TopicHarness) -> set[int]:
    """Return the partition counts of the five topics."""
    with Admin(harness.connection) as admin:
        return {len(admin.have_leaders(harness.topics.name(kind))) for kind in KINDS}


def killed(harness: TopicHarness, after: int, nth: int) -> None:
    """Let an operator's process die after step `nth`, unless the request is refused before."""
    steps: list[str] = []

    def die(step: str) -> None:
        steps.append(step)
        if len(steps) > nth:
            raise Killed

    with suppress(Killed, CqrsError):
        repartition(harness.connection, harness.topics, after, "murmur2", die)


def decided_then_grown_by_hand(pair: TopicHarness) -> None:
    """Decide a round on two partitions, then add two partitions without a partition history."""
    pair.send(*round_commands(0))
    run_plan(pair.plan())
    add_partitions_by_hand(pair, 4)


def grow(harness: TopicHarness, after: int) -> None:
    repartition(harness.connection, harness.topics, after, "murmur2")
    harness.partitions = after
    harness.reconnect()


@pytest.mark.kafka
def test_grown_topic_is_left_alone(pair: TopicHarness) -> None:
    """Another operator was first, and the broker of the previous request did not know that yet."""
    with Admin(pair.connection) as admin:
        admin.add_partitions(pair.topics.events, 2)
        assert len(admin.have_leaders(pair.topics.events)) == 2


@pytest.mark.covers("growing")
@pytest.mark.kafka
@pytest.mark.parametrize("wanted", [(4, 6), (4, 4)])
def test_two_operators_come_to_one_result(pair: TopicHarness, wanted: tuple[int, int]) -> None:
    errors: list[CqrsError] = []

    def operate(after: int) -> None:
        try:
            repartition(pair.connection, pair.topics, after, "murmur2")
        except CqrsError as error:
            errors.append(error)

    threads = [threading.Thread(target=operate, args=(after,)) for after in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (one, other) = current_lineage(pair).counts
    assert one == 2 and other in wanted and len(errors) == len(set(wanted)) - 1
    assert grown(pair) == {other}


@pytest.mark.covers("growing")
@pytest.mark.kafka
def test_lineage_without_wish_adopts_nothing(pair: TopicHarness) -> None:
    """A run does not take over the topics' partition count if the operator died before the request."""
    decided_then_grown_by_hand(pair)
    with Admin(pair.connection) as admin:
        create_lineage_topic(admin, pair.topics)
    with pytest.raises(ConfigurationError, match="had 2 partitions and now has 4"):
        pair.plan()


@pytest.mark.kafka
@pytest.mark.parametrize("first", sample_cases([0, 1, 2], 2))
@pytest.mark.parametrize("second", sample_cases([0, 1, 2], 1))
def test_killed_operators_come_to_one_result(pair: TopicHarness, first: int, second: int) -> None:
    """The first request counts although neither operator completed it. Repeating this request completes it."""
    killed(pair, 4, first)
    killed(pair, 6, second)
    refused = 0
    for after in (6, 4):
        try:
            grow(pair, after)
        except CqrsError:
            refused += 1
    assert refused == 1 and current_lineage(pair).counts == (2, pair.partitions)
    assert grown(pair) == {pair.partitions}


@pytest.mark.covers("growing")
@pytest.mark.kafka
def test_hand_grown_topics_are_adopted(pair: TopicHarness) -> None:
    decided_then_grown_by_hand(pair)
    grow(pair, 4)
    pair.send(*round_commands(1))
    run_plan(pair.plan())
    check_decided_once(pair, 0, 1)
