"""Partitions grow while one of three brokers is cut off."""

import pytest

from tests.scenarios.cluster.brokers import EVERYTHING, PATIENCE, Brokers
from tests.scenarios.cluster.service import Service
from tests.support.project import increments, stages
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.spark, pytest.mark.slow]

#: Exit codes of a growth that was done, or that a broker kept from being done: the same command goes on.
DONE_OR_UNAVAILABLE = {0, 4}


@pytest.mark.pins("growing")
def test_growth_ends_with_the_broker_back(brokers: Brokers, service: Service) -> None:
    project, growth = service.project, ("repartition", "counter", "--partitions", "4")
    project.cqrs("init", "counter", "--partitions", "2")
    project.send(increments(20))
    project.cqrs("run", "counter", "--once")
    lonely = brokers.leader(f"{project.prefix}counter.commands", 0)
    brokers.cut_off(lonely, *EVERYTHING)
    with project.running(*growth) as growing:
        _, said = growing.communicate(timeout=PATIENCE)
    assert growing.returncode in DONE_OR_UNAVAILABLE, said
    brokers.rejoin(lonely, *EVERYTHING)
    eventually(brokers.whole, PATIENCE)
    project.cqrs(*growth)
    project.send(increments(20))
    project.cqrs("run", "counter", "--once")
    assert stages(project, "counter") == [None] * 4
    assert "no violation" in project.cqrs("verify", "counter")
