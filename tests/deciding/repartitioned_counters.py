"""Counters that are repartitioned while commands are deferred: their commands, and a check of the results."""

from collections.abc import Callable
from pathlib import Path

from cqrs_cli.kafka.connection.connection import Connection
from tests.support.commands import FAR, Sent, command
from tests.support.harness import TopicHarness
from tests.support.owners import quietly
from tests.support.repartitioning import finals, grow, stale, story

SUBJECTS = [f"counter-{number}" for number in range(12)]


def counters(connection: Connection, prefix: str, folder: Path, partitions: int = 2) -> TopicHarness:
    return TopicHarness(connection, prefix, folder, partitions=partitions)


def round_commands(number: int, **attributes: str) -> list[Sent]:
    """Return one command to each counter."""
    return [
        command("counter.Increment", subject, f"{subject}.{number}", **attributes) for subject in SUBJECTS
    ]


def run_first_rounds(harness: TopicHarness) -> None:
    """Decide round 0, and defer round 1."""
    harness.send(*round_commands(0), *round_commands(1, notbefore=FAR))
    quietly(harness.plan())


def release_commands(number: int) -> list[Sent]:
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
    return {subject: story(harness, subject) for subject in SUBJECTS}


def check_decided_once(harness: TopicHarness, *rounds: int, machine: str = "state") -> None:
    """Assert that each command was decided once, in the order of the rounds, and that each key is in one shard."""
    assert histories(harness) == expected_histories(*rounds)
    shards = [harness.shard(machine, partition) for partition in range(harness.partitions)]
    assert sorted(name for shard in shards for name in shard) == sorted(SUBJECTS)
    assert {saved.version for shard in shards for saved in shard.values()} == {len(rounds)}
    decided = finals(harness)
    statuses = [decided.get(f"{subject}.{number}") for subject in SUBJECTS for number in rounds]
    assert statuses == [["accepted"]] * len(statuses)


def repartition_twice(single: TopicHarness, between_steps: Callable[[], object] = lambda: None) -> None:
    """Repartition counters from 1 to 2 to 4, with deferred commands and clients with outdated counts."""
    run_first_rounds(single)
    between_steps()
    grow(single, 2)
    single.send(*round_commands(1), *(stale(sent, 1) for sent in round_commands(2)))
    between_steps()
    quietly(single.plan())
    between_steps()
    single.send(*(stale(sent, 1) for sent in round_commands(3)))
    grow(single, 4)
    quietly(single.plan())
    single.send(
        *(stale(sent, 2) for sent in round_commands(0)), *(stale(sent, 1) for sent in release_commands(1))
    )
    single.send(*round_commands(4))
    for _ in range(3):  # some are forwarded from 0 to 1 to 3
        quietly(single.plan())
