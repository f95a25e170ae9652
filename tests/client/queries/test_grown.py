"""Deferred commands, and a simulation, for a repartitioned aggregate."""

from pathlib import Path

import pytest

from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.queries.deferred import deferred_commands
from cqrs_cli.client.queries.simulation import Simulation
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from tests.deciding.growing import SUBJECTS, counters, first_rounds, round_of
from tests.support.harness import TopicHarness
from tests.support.owners import quietly
from tests.support.repartitioning import grow

pytestmark = pytest.mark.kafka


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """One decided and one deferred command for each counter, both from before the repartitioning."""
    pair = counters(connection, prefix, tmp_path)
    first_rounds(pair)
    grow(pair, 4)
    return pair


def test_moved_commands_wait_once(pair: TopicHarness) -> None:
    for _ in range(2):  # before and after the partitions split
        found = deferred_commands(pair.connection, pair.topics, "murmur2", lambda _: True)
        assert sorted(one.subject for one in found) == sorted(SUBJECTS)
        quietly(pair.plan())


def test_rehearsal_knows_what_was_before(pair: TopicHarness) -> None:
    """The simulation knows states, decisions and deferred commands."""
    quietly(pair.plan())
    sent = {number: [one.value or b"" for one in round_of(number)] for number in range(3)}
    composed = {
        number: [
            ReadyCommand(f"{one}.{number}", "counter", one, "counter.Increment", value)
            for one, value in zip(SUBJECTS, values, strict=True)
        ]
        for number, values in sent.items()
    }
    asked = [one for some in composed.values() for one in some]
    deciding = DecisionSettings("murmur2", 86_400_000, 20)
    rehearsal = Simulation(pair.connection, pair.topics, pair.aggregate, deciding, asked)
    statuses = {
        number: {rehearsal.decide(one).read.data.status for one in some} for number, some in composed.items()
    }
    assert statuses == {0: {"duplicate"}, 1: {"duplicate"}, 2: {"accepted"}}
