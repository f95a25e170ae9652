"""Partitions grow on a real broker: every command is decided once, in its order, wherever it was sent."""

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.support.commands import Sent, command
from tests.support.growth import finals, grow, lineage, reasons, stale, story
from tests.support.harness import TopicHarness
from tests.support.owners import quietly

pytestmark = pytest.mark.kafka

SUBJECTS = [f"counter-{number}" for number in range(12)]


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path) -> TopicHarness:  # type: ignore[no-untyped-def]
    return TopicHarness(connection, prefix, tmp_path, partitions=2)


def round_of(number: int) -> list[Sent]:
    """One command to each counter."""
    return [command("counter.Increment", one, f"{one}.{number}") for one in SUBJECTS]


def told(rounds: int) -> dict[str, list[tuple[int, str]]]:
    """The story of each counter after so many rounds."""
    return {one: [(n + 1, f"{one}.{n}") for n in range(rounds)] for one in SUBJECTS}


def stories(harness: TopicHarness) -> dict[str, list[tuple[int, str]]]:
    return {one: story(harness, one) for one in SUBJECTS}


def test_commands_are_decided_over_a_growth(pair: TopicHarness) -> None:
    """Before it, by the old count behind it, and by the new one."""
    pair.send(*round_of(0))
    quietly(pair.plan())
    pair.send(*round_of(1))
    grow(pair, 4)
    quietly(pair.plan())
    pair.send(*(stale(one, 2) for one in round_of(2)))
    quietly(pair.plan())
    pair.send(*round_of(3))
    quietly(pair.plan())
    assert stories(pair) == told(4)
    assert set(map(tuple, finals(pair).values())) == {("accepted",)} and len(finals(pair)) == 48
    moved = [reasons(pair, one)["MOVED"] for one in (0, 1)]
    assert sum(moved) == sum(reasons(pair, one).total() for one in (2, 3)) - sum(moved) > 0
    assert lineage(pair).begun == {2, 3}
