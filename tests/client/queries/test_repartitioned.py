"""Deferred commands, and a simulation, for a repartitioned aggregate."""

from pathlib import Path

import pytest

from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.queries.deferred import deferred_commands
from cqrs_cli.client.queries.simulation import Simulation
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from tests.deciding.repartitioned_counters import SUBJECTS, counters, round_commands, run_first_rounds
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import repartition_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Counters that are being repartitioned, each with a decided and a deferred command from before."""
    harness = counters(connection, prefix, tmp_path)
    run_first_rounds(harness)
    repartition_topics(harness, 4)
    return harness


def test_deferred_commands_are_listed_once(harness: TopicHarness) -> None:
    for _ in range(2):  # before and after the partitions split
        deferred = deferred_commands(harness.connection, harness.topics, "murmur2", lambda _: True)
        assert sorted(command.subject for command in deferred) == sorted(SUBJECTS)
        run_plan(harness.plan())


def test_simulation_knows_earlier_decisions(harness: TopicHarness) -> None:
    """The simulation knows states, decisions and deferred commands."""
    run_plan(harness.plan())
    values_by_round = {
        number: [record.value or b"" for record in round_commands(number)] for number in range(3)
    }
    commands_by_round = {
        number: [
            ReadyCommand(f"{subject}.{number}", "counter", subject, "counter.Increment", value)
            for subject, value in zip(SUBJECTS, values, strict=True)
        ]
        for number, values in values_by_round.items()
    }
    all_commands = [command for commands in commands_by_round.values() for command in commands]
    decision_settings = DecisionSettings("murmur2", 86_400_000, 20)
    simulation = Simulation(
        harness.connection, harness.topics, harness.aggregate, decision_settings, all_commands
    )
    statuses = {
        number: {simulation.decide(command).envelope.data.status for command in commands}
        for number, commands in commands_by_round.items()
    }
    assert statuses == {0: {"duplicate"}, 1: {"duplicate"}, 2: {"accepted"}}
