"""Repartitioning on a real broker: every command is decided once, in order, on any partition that a client chose."""

from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.repartitioned_counters import (
    SUBJECTS,
    check_decided_once,
    counters,
    release_commands,
    round_commands,
    run_first_rounds,
)
from tests.support.commands import FAR_FUTURE
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, running_owners
from tests.support.repartitioning import (
    add_partitions_by_hand,
    count_reasons,
    current_lineage,
    final_statuses,
    repartition_topics,
    with_stale_partition,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


@pytest.mark.covers("growing")
def test_commands_are_decided_over_a_growth(pair: TopicHarness) -> None:
    """Commands sent before a repartitioning, and after it with the old or the new count, are decided once."""
    pair.send(*round_commands(0))
    run_plan(pair.plan())
    pair.send(*round_commands(1))
    repartition_topics(pair, 4)
    run_plan(pair.plan())
    pair.send(*(with_stale_partition(one, 2) for one in round_commands(2)))
    run_plan(pair.plan())
    pair.send(*round_commands(3))
    run_plan(pair.plan())
    check_decided_once(pair, 0, 1, 2, 3)
    moved = [count_reasons(pair, one)["MOVED"] for one in (0, 1)]
    assert sum(moved) == sum(count_reasons(pair, one).total() for one in (2, 3)) - sum(moved) > 0
    assert current_lineage(pair).activated == {2, 3}


@pytest.mark.covers("growing")
def test_growth_needs_no_pause(pair: TopicHarness) -> None:
    """The active run decides while partitions are added. The next run takes over and splits."""
    with running_owners(pair.plan(once=False)):
        pair.send(*round_commands(0))
        repartition_topics(pair, 4)
        pair.send(*(with_stale_partition(one, 2) for one in round_commands(1)))
        eventually(lambda: len(final_statuses(pair)) == 24)
    with running_owners(pair.plan(once=False)):
        pair.send(*(with_stale_partition(one, 2) for one in round_commands(2)))
        eventually(lambda: len(final_statuses(pair)) == 36)
    check_decided_once(pair, 0, 1, 2)


@pytest.mark.covers("growing")
def test_what_waits_moves_too(pair: TopicHarness) -> None:
    """The target partition resubmits a deferred command, knows its id, and ends it, even after losing its shard."""
    run_first_rounds(pair)
    repartition_topics(pair, 4)
    pair.send(*round_commands(1, notbefore=FAR_FUTURE))
    run_plan(pair.plan())
    assert sum(count_reasons(pair, one)["duplicate"] for one in range(4)) == 12
    pair.send(*release_commands(1))
    run_plan(pair.plan(machine="new"))
    run_plan(pair.plan(machine="third"))
    check_decided_once(pair, 0, 1, machine="third")


@pytest.mark.parametrize("between", [True, False])
def test_two_growths_are_two_splits(
    connection: Connection, prefix: str, tmp_path: Path, between: bool
) -> None:
    """The repartitionings happen with a run between them and without."""
    single = counters(connection, prefix, tmp_path, 1)
    run_first_rounds(single)
    repartition_topics(single, 2)
    single.send(*round_commands(2))
    if between:
        run_plan(single.plan())
    repartition_topics(single, 4)
    with running_owners(single.plan(once=False)):
        eventually(lambda: len(final_statuses(single)) == 24)
        single.send(*(with_stale_partition(one, 1) for one in round_commands(3)))
        eventually(lambda: len(final_statuses(single)) == 36)
        single.send(*(with_stale_partition(one, 2) for one in release_commands(1)))
        eventually(lambda: len(final_statuses(single)) == 60)
    check_decided_once(single, 0, 2, 3, 1)
    assert current_lineage(single).counts == (1, 2, 4) and current_lineage(single).activated == {1, 2, 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    ["split.before", "split.after", "adopt.chunk", "adopt.before_begun", "forward.said", "commit.sent:2"],
)
def test_killed_owners_split_once(pair: TopicHarness, point: str) -> None:
    run_first_rounds(pair)
    repartition_topics(pair, 4)
    pair.send(
        *(with_stale_partition(one, 2) for one in round_commands(2)),
        *(with_stale_partition(one, 2) for one in release_commands(1)),
    )
    strike = point if ":" in point else f"{point}:1"
    if point == "forward.said":
        run_plan(pair.plan())
        pair.send(*(with_stale_partition(one, 2) for one in round_commands(3)))
    assert OwnerProcess(pair.plan(once=False), f"{strike}:kill", transaction_timeout=3.0).was_killed()
    for _ in range(3):
        run_plan(pair.plan())
    rounds = [0, 1, 2, "release", *[3] * (point == "forward.said")]
    sent = {f"{one}.{number}" for one in SUBJECTS for number in rounds}
    assert {one: len(found) for one, found in final_statuses(pair).items()} == dict.fromkeys(sent, 1)


def delete_old(harness: TopicHarness, partition: int) -> None:
    """Delete the records of ended commands, as retention of outcomes and compaction of the deferred topic do."""
    harness.configure("deferred", "cleanup.policy", "compact,delete")
    with Admin(harness.connection) as admin:
        for kind in ("outcomes", "deferred"):
            admin.delete_before(harness.topics.name(kind), {partition: harness.stable_end(kind, partition)})
    harness.configure("deferred", "cleanup.policy", "compact")


@pytest.mark.nightly
def test_old_shard_of_a_child_repeats_nothing(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """The shard has imported deferred commands but was not activated, and is used again after a long time."""
    single = counters(connection, prefix, tmp_path, 1)
    run_first_rounds(single)
    repartition_topics(single, 2)
    old = single.plan(once=False, machine="old")
    assert OwnerProcess(old, "adopt.before_begun:1:kill", transaction_timeout=3.0).was_killed()
    single.send(*release_commands(1))
    with running_owners(single.plan(once=False)):
        eventually(lambda: len(final_statuses(single)) == 36)
    delete_old(single, 1)
    with running_owners(single.plan(once=False, machine="old")):
        single.send(*release_commands(1))
        eventually(
            lambda: count_reasons(single, 1)["NOT_FOUND"] == sum(single.partition_of(one) for one in SUBJECTS)
        )
    assert count_reasons(single, 1).keys() == {"NOT_FOUND"}


def test_topics_grown_by_hand_are_refused(pair: TopicHarness) -> None:
    """The check also works after an earlier repartitioning."""
    repartition_topics(pair, 4)
    add_partitions_by_hand(pair, 6)
    with pytest.raises(ConfigurationError, match="have 6 partitions, but its partition history ends with 4"):
        pair.plan()
