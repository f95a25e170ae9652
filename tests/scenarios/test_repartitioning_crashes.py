"""`cqrs repartition` is killed at each of its steps. Repeating the call completes the repartitioning."""

import signal
from pathlib import Path

import pytest

from cqrs_cli import failpoints
from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.repartitioned_counters import check_decided_once, counters, round_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.project import Project
from tests.support.repartitioning import current_lineage

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: The failpoints of the command. At each of them the request may exist, and some of the five topics may be extended.
POINTS = (
    *("repartition.history:1", "repartition.requested:1"),
    *(f"repartition.topic:{number}" for number in range(1, 6)),
)

REPARTITION = ("repartition", "counter", "--partitions", "4")


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


def dies_at(project: Project, point: str) -> bool:
    """Run the command and return True if it died at this failpoint."""
    with project.running(*REPARTITION, **{failpoints.VARIABLE: f"{point}:kill"}) as operator:
        operator.communicate(timeout=60)
    return operator.returncode == -signal.SIGKILL


@pytest.mark.covers("growing")
@pytest.mark.parametrize("point", POINTS)
def test_killed_command_is_completed(pair: TopicHarness, project: Project, point: str) -> None:
    """Repeating a killed `cqrs repartition` completes it: the next run splits, and no command is lost."""
    with running_owners(pair.plan(once=False)):
        pair.send(*round_commands(0))
        assert dies_at(project, point)
        assert project.json(*REPARTITION)["left"] == [0, 1, 2, 3]
    assert current_lineage(pair).counts == (2, 4)
    pair.partitions = 4
    pair.reconnect()
    pair.send(*round_commands(1))
    run_plan(pair.plan())
    check_decided_once(pair, 0, 1)


def test_each_killed_call_completes_one_step(pair: TopicHarness, project: Project) -> None:
    """No step is repeated: each call extends another topic first."""
    for point in ("repartition.history:1", "repartition.requested:1", *["repartition.topic:1"] * 5):
        assert dies_at(project, point)
    assert not dies_at(project, "repartition.topic:1")
    assert current_lineage(pair).counts == (2, 4)
