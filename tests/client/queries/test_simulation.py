from pathlib import Path

import pytest

from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import Attributes
from cqrs_cli.client.queries.simulation import Simulation
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from tests.deciding.deferred.deferring_topics import deferring_topics


@pytest.mark.kafka
def test_simulation_defers_commands(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """A simulation defers the command as an owner would. A second command with the same id is a duplicate."""
    harness = deferring_topics(connection, prefix, tmp_path)
    commands = [compose(harness.aggregate, "a", "Count", ["ready=1"], Attributes(id="c-1")) for _ in range(2)]
    decision_settings = DecisionSettings("murmur2", 1000, 20)
    simulation = Simulation(connection, harness.topics, harness.aggregate, decision_settings, commands)
    deferred, duplicate = (simulation.decide(command).envelope.data for command in commands)
    assert (deferred.status, deferred.reason, deferred.attempt, deferred.message) == (
        "deferred",
        "LATER",
        1,
        "0 of 1",
    )
    assert deferred.due is not None
    assert duplicate.status == "duplicate" and duplicate.original and duplicate.original.status == "deferred"
