"""Counters during a repartitioning, with deferred commands: the commands, and the check of their results."""

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


def round_of(number: int, **attributes: str) -> list[Sent]:
    """Return one command to each counter."""
    return [command("counter.Increment", one, f"{one}.{number}", **attributes) for one in SUBJECTS]


def first_rounds(harness: TopicHarness) -> None:
    """Decide round 0, and defer round 1."""
    harness.send(*round_of(0), *round_of(1, notbefore=FAR))
    quietly(harness.plan())


def released(number: int) -> list[Sent]:
    """Return commands that release the deferred commands of a round."""
    return [command("cqrs.Release", one, f"{one}.release", {"id": f"{one}.{number}"}) for one in SUBJECTS]


def told(*rounds: int) -> dict[str, list[tuple[int, str]]]:
    """Return the expected versions and commands of each counter after these rounds."""
    return {one: [(n, f"{one}.{number}") for n, number in enumerate(rounds, 1)] for one in SUBJECTS}


def stories(harness: TopicHarness) -> dict[str, list[tuple[int, str]]]:
    return {one: story(harness, one) for one in SUBJECTS}


def check(harness: TopicHarness, *rounds: int, machine: str = "state") -> None:
    """Assert that each command was decided once, in the order of the rounds, and that each key is in one shard."""
    assert stories(harness) == told(*rounds)
    kept = [harness.shard(machine, one) for one in range(harness.partitions)]
    assert sorted(name for shard in kept for name in shard) == sorted(SUBJECTS)
    assert {saved.version for shard in kept for saved in shard.values()} == {len(rounds)}
    decided = finals(harness)
    once = [decided.get(f"{one}.{number}") for one in SUBJECTS for number in rounds]
    assert once == [["accepted"]] * len(once)


def grow_twice(single: TopicHarness, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Repartition counters from 1 to 2 to 4, with deferred commands and clients with outdated counts."""
    first_rounds(single)
    meanwhile()
    grow(single, 2)
    single.send(*round_of(1), *(stale(one, 1) for one in round_of(2)))
    meanwhile()
    quietly(single.plan())
    meanwhile()
    single.send(*(stale(one, 1) for one in round_of(3)))
    grow(single, 4)
    quietly(single.plan())
    single.send(*(stale(one, 2) for one in round_of(0)), *(stale(one, 1) for one in released(1)))
    single.send(*round_of(4))
    for _ in range(3):  # some are forwarded from 0 to 1 to 3
        quietly(single.plan())
