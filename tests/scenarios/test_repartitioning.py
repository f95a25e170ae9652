"""An aggregate gets more partitions, as its operator does it: the real command line, and two runs in sequence."""

import pytest

from cqrs_cli.core.digest import as_hex
from tests.support.project import (
    LOCAL_MASTER,
    Project,
    await_decided,
    await_repartitioned,
    counter_increments,
    repartitioning_stages,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

COUNTER = ["counter"]


def send_round(project: Project, number: int) -> None:
    project.send(counter_increments(20))
    await_decided(project, 20 * number, COUNTER)


def repartition_during_run(project: Project) -> None:
    """Repartition during a run. Commands on the new partitions wait."""
    preview = project.json("repartition", "counter", "--partitions", "4", "--dry-run")
    assert [partition["children"] for partition in preview["partitions"]] == [
        [2],
        [3],
    ] and repartitioning_stages(project, "counter") == [None] * 2
    assert project.json("repartition", "counter", "--partitions", "4")["left"] == [0, 1, 2, 3]
    assert repartitioning_stages(project, "counter") == ["settles", "settles", "waits", "waits"]
    project.send(counter_increments(20))


def check_counters(project: Project, rounds: int) -> None:
    """Check that each counter has all its events, on any partitions."""
    replayed = project.replay("counter")
    assert (replayed.aggregates, replayed.events) == (20, 20 * rounds)
    assert {project.json("show", "counter", f"n-{number}")["version"] for number in (0, 7, 19)} == {rounds}
    assert as_hex(replayed.digest) == project.json("status", "counter", "--digest")["digest"]


@pytest.mark.covers("growing")
def test_aggregate_is_repartitioned_between_two_runs(project: Project) -> None:
    project.cqrs("init", "counter", "--partitions", "2")
    with project.running("run", "counter", *LOCAL_MASTER) as first:
        send_round(project, 1)
        repartition_during_run(project)
        with project.running("run", "counter", *LOCAL_MASTER) as second:
            assert first.wait(timeout=90) == 6
            await_decided(project, 40, COUNTER)
            await_repartitioned(project, "counter")
            assert repartitioning_stages(project, "counter") == [None] * 4
            send_round(project, 3)
            second.terminate()
            assert second.wait(timeout=60) == 143
    assert project.json("repartition", "counter", "--partitions", "4")["left"] == []
    check_counters(project, 3)
