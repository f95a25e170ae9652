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
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


@pytest.mark.covers("growing")
def test_commands_are_decided_across_a_repartitioning(harness: TopicHarness) -> None:
    """Commands sent before a repartitioning, and after it with the old or the new count, are decided once."""
    harness.send(*round_commands(0))
    run_plan(harness.plan())
    harness.send(*round_commands(1))
    repartition_topics(harness, 4)
    run_plan(harness.plan())
    harness.send(*(with_stale_partition(sent, 2) for sent in round_commands(2)))
    run_plan(harness.plan())
    harness.send(*round_commands(3))
    run_plan(harness.plan())
    check_decided_once(harness, 0, 1, 2, 3)
    moved_counts = [count_reasons(harness, partition)["MOVED"] for partition in (0, 1)]
    assert (
        sum(moved_counts)
        == sum(count_reasons(harness, partition).total() for partition in (2, 3)) - sum(moved_counts)
        > 0
    )
    assert current_lineage(harness).activated == {2, 3}


@pytest.mark.covers("growing")
def test_repartitioning_needs_no_pause(harness: TopicHarness) -> None:
    """The active run decides while partitions are added. The next run takes over and splits."""
    with running_owners(harness.plan(once=False)):
        harness.send(*round_commands(0))
        repartition_topics(harness, 4)
        harness.send(*(with_stale_partition(sent, 2) for sent in round_commands(1)))
        eventually(lambda: len(final_statuses(harness)) == 24)
    with running_owners(harness.plan(once=False)):
        harness.send(*(with_stale_partition(sent, 2) for sent in round_commands(2)))
        eventually(lambda: len(final_statuses(harness)) == 36)
    check_decided_once(harness, 0, 1, 2)


@pytest.mark.covers("growing")
def test_deferred_commands_move_to_children(harness: TopicHarness) -> None:
    """The child partition resubmits a deferred command, knows its id, and ends it, even after losing its shard."""
    run_first_rounds(harness)
    repartition_topics(harness, 4)
    harness.send(*round_commands(1, notbefore=FAR_FUTURE))
    run_plan(harness.plan())
    assert sum(count_reasons(harness, partition)["duplicate"] for partition in range(4)) == 12
    harness.send(*release_commands(1))
    run_plan(harness.plan(machine="new"))
    run_plan(harness.plan(machine="third"))
    check_decided_once(harness, 0, 1, machine="third")


@pytest.mark.parametrize("run_between", [True, False])
def test_two_repartitionings_are_two_splits(
    connection: Connection, prefix: str, tmp_path: Path, run_between: bool
) -> None:
    """The repartitionings happen with a run between them and without."""
    single = counters(connection, prefix, tmp_path, 1)
    run_first_rounds(single)
    repartition_topics(single, 2)
    single.send(*round_commands(2))
    if run_between:
        run_plan(single.plan())
    repartition_topics(single, 4)
    with running_owners(single.plan(once=False)):
        eventually(lambda: len(final_statuses(single)) == 24)
        single.send(*(with_stale_partition(sent, 1) for sent in round_commands(3)))
        eventually(lambda: len(final_statuses(single)) == 36)
        single.send(*(with_stale_partition(sent, 2) for sent in release_commands(1)))
        eventually(lambda: len(final_statuses(single)) == 60)
    check_decided_once(single, 0, 2, 3, 1)
    assert current_lineage(single).counts == (1, 2, 4) and current_lineage(single).activated == {1, 2, 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    ["split.before", "split.after", "import.chunk", "import.last", "forward.produced", "commit.sent:2"],
)
def test_killed_owners_split_once(harness: TopicHarness, point: str) -> None:
    run_first_rounds(harness)
    repartition_topics(harness, 4)
    harness.send(
        *(with_stale_partition(sent, 2) for sent in round_commands(2)),
        *(with_stale_partition(sent, 2) for sent in release_commands(1)),
    )
    fault = point if ":" in point else f"{point}:1"
    if point == "forward.produced":
        run_plan(harness.plan())
        harness.send(*(with_stale_partition(sent, 2) for sent in round_commands(3)))
    assert OwnerProcess(harness.plan(once=False), f"{fault}:kill", transaction_timeout=3.0).was_killed()
    for _ in range(3):
        run_plan(harness.plan())
    rounds = [0, 1, 2, "release", *[3] * (point == "forward.produced")]
    ids = {f"{subject}.{number}" for subject in SUBJECTS for number in rounds}
    counts = {id: len(statuses) for id, statuses in final_statuses(harness).items()}
    assert counts == dict.fromkeys(ids, 1)


def delete_old_records(harness: TopicHarness, partition: int) -> None:
    """Delete the records of ended commands, as retention of outcomes and compaction of the deferred topic do."""
    harness.configure("deferred", "cleanup.policy", "compact,delete")
    with Admin(harness.connection) as admin:
        for kind in ("outcomes", "deferred"):
            admin.delete_before(harness.topics.name(kind), {partition: harness.stable_end(kind, partition)})
    harness.configure("deferred", "cleanup.policy", "compact")


@pytest.mark.nightly
def test_old_child_shard_repeats_no_command(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """The shard has imported deferred commands but was not activated, and is used again after a long time."""
    single = counters(connection, prefix, tmp_path, 1)
    run_first_rounds(single)
    repartition_topics(single, 2)
    plan_with_old_shard = single.plan(once=False, machine="old")
    assert OwnerProcess(plan_with_old_shard, "import.last:1:kill", transaction_timeout=3.0).was_killed()
    single.send(*release_commands(1))
    with running_owners(single.plan(once=False)):
        eventually(lambda: len(final_statuses(single)) == 36)
    delete_old_records(single, 1)
    with running_owners(single.plan(once=False, machine="old")):
        single.send(*release_commands(1))
        eventually(
            lambda: (
                count_reasons(single, 1)["NOT_FOUND"]
                == sum(single.partition_of(subject) for subject in SUBJECTS)
            )
        )
    assert count_reasons(single, 1).keys() == {"NOT_FOUND"}


def test_manually_extended_topics_are_refused(harness: TopicHarness) -> None:
    """The check also works after an earlier repartitioning."""
    repartition_topics(harness, 4)
    add_partitions_by_hand(harness, 6)
    with pytest.raises(ConfigurationError, match="have 6 partitions, but its partition history ends with 4"):
        harness.plan()
