"""The command that lets partitions grow is killed at each of its steps; the same call again completes the growth."""

import signal
from pathlib import Path

import pytest

from cqrs_cli import failpoints
from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.growing import check, counters, round_of
from tests.support.growth import lineage
from tests.support.harness import TopicHarness
from tests.support.owners import quietly, running
from tests.support.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: Its points, and what has been done at each: the wish may be there, and some of the five topics.
POINTS = ("grow.lineage:1", "grow.wished:1", *(f"grow.topic:{number}" for number in range(1, 6)))

GROW = ("repartition", "counter", "--partitions", "4")


@pytest.fixture
def pair(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return counters(connection, prefix, tmp_path)


def killed(project: Project, point: str) -> bool:
    """Call the command: whether it died at this point."""
    with project.running(*GROW, **{failpoints.VARIABLE: f"{point}:kill"}) as operator:
        operator.communicate(timeout=60)
    return operator.returncode == -signal.SIGKILL


@pytest.mark.covers("growing")
@pytest.mark.parametrize("point", POINTS)
def test_killed_command_is_completed(pair: TopicHarness, project: Project, point: str) -> None:
    """While a run decides on; the next one splits, and nobody has lost anything."""
    with running(pair.plan(once=False)):
        pair.send(*round_of(0))
        assert killed(project, point)
        assert project.json(*GROW)["left"] == [0, 1, 2, 3]
    assert lineage(pair).counts == (2, 4)
    pair.partitions = 4
    pair.reconnect()
    pair.send(*round_of(1))
    quietly(pair.plan())
    check(pair, 0, 1)


def test_each_call_comes_a_step_further(pair: TopicHarness, project: Project) -> None:
    """Nothing is done twice: the first topic that grows is another one each time."""
    for point in ("grow.lineage:1", "grow.wished:1", *["grow.topic:1"] * 5):
        assert killed(project, point)
    assert not killed(project, "grow.topic:1")
    assert lineage(pair).counts == (2, 4)
