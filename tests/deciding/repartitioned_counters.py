"""Counters that are repartitioned while commands are deferred: their commands, and a check of the results."""

from collections.abc import Callable
from pathlib import Path

from cqrs_cli.kafka.connection.connection import Connection
from tests.support.commands import FAR_FUTURE, CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import (
    event_history,
    final_statuses,
    repartition_topics,
    with_stale_partition,
)

SUBJECTS = [f"counter-{number}" for number in range(12)]


def counters(connection: Connection, prefix: str, folder: Path, partitions: int = 2) -> TopicHarness:
    return TopicHarness(connection, prefix, folder, partitions=partitions)


def round_commands(number: int, **attributes: str) -> list[CommandRecord]:
    """Return one command to each counter."""
    return [
        command("counter.Increment", subject, f"{subject}.{number}", **attributes) for subject in SUBJECTS
    ]


def run_first_rounds(harness: TopicHarness) -> None:
    """Decide round 0, and defer round 1."""
    harness.send(*round_commands(0), *round_commands(1, notbefore=FAR_FUTURE))
    run_plan(harness.plan())


def release_commands(number: int) -> list[CommandRecord]:
    """Return commands that release the deferred commands of a round."""
    return [
        command("cqrs.Release", subject, f"{subject}.release", {"id": f"{subject}.{number}"})
        for subject in SUBJECTS
    ]


def expected_histories(*rounds: int) -> dict[str, list[tuple[int, str]]]:
    """Return the expected versions and commands of each counter after these rounds."""
    return {
        subject: [(version, f"{subject}.{round_number}") for version, round_number in enumerate(rounds, 1)]
        for subject in SUBJECTS
    }


def histories(harness: TopicHarness) -> dict[str, list[tuple[int, str]]]:
    return {subject: event_history(harness, subject) for subject in SUBJECTS}


def check_decided_once(harness: TopicHarness, *rounds: int, machine: str = "state") -> None:
    """Assert that each command was decided once, in the order of the rounds, and that each key is in one shard."""
    assert histories(harness) == expected_histories(*rounds)
    shards = [harness.shard_states(machine, partition) for partition in range(harness.partitions)]
    assert sorted(name for shard in shards for name in shard) == sorted(SUBJECTS)
    assert {saved.version for shard in shards for saved in shard.values()} == {len(rounds)}
    decided = final_statuses(harness)
    statuses = [decided.get(f"{subject}.{number}") for subject in SUBJECTS for number in rounds]
    assert statuses == [["accepted"]] * len(statuses)


def repartition_twice(single: TopicHarness, between_steps: Callable[[], object] = lambda: None) -> None:
    """Repartition counters from 1 to 2 to 4, with deferred commands and clients with outdated counts."""
    run_first_rounds(single)
    between_steps()
    repartition_topics(single, 2)
    single.send(*round_commands(1), *(with_stale_partition(sent, 1) for sent in round_commands(2)))
    between_steps()
    run_plan(single.plan())
    between_steps()
    single.send(*(with_stale_partition(sent, 1) for sent in round_commands(3)))
    repartition_topics(single, 4)
    run_plan(single.plan())
    single.send(
        *(with_stale_partition(sent, 2) for sent in round_commands(0)),
        *(with_stale_partition(sent, 1) for sent in release_commands(1)),
    )
    single.send(*round_commands(4))
    for _ in range(3):  # some are forwarded from 0 to 1 to 3
        run_plan(single.plan())
