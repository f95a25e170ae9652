"""Every interleaving of two owners of one partition, within bounds, keeps every promise of the protocol."""

from dataclasses import replace

import pytest

from tests.model.deciding import REPEATED
from tests.model.explore import explore
from tests.model.rules import Rules
from tests.model.world import Scenario

TWO_RUNS, TWO_ATTEMPTS = ((1, 0), (2, 0)), ((1, 0), (1, 1))
HERE, APART = (0, 0), (0, 1)

ALONE = Scenario("one run", ((1, 0),), (0,), faults=2, starts=3)
DISTANT = Scenario("two runs on two machines", TWO_RUNS, APART, faults=1)
NEIGHBOURS = Scenario("two runs on one machine", TWO_RUNS, HERE, faults=1)
RETRY = Scenario("a straggler and its retry", TWO_ATTEMPTS, HERE, faults=0)
DEPLOY = Scenario("a new run warms, markers come late", TWO_RUNS, HERE, 0, warms=True, scattered=True)
ENDED = Scenario("a run is taken over while it is ended", TWO_RUNS, HERE, faults=0, may_be_ended=True)
SCENARIOS = [
    ALONE,
    replace(ALONE, name="one run, and a repeated command", commands=REPEATED),
    replace(ALONE, name="one run that warms, markers come late", faults=1, warms=True, scattered=True),
    replace(ALONE, name="a run that may be ended", faults=1, may_be_ended=True),
    pytest.param(DISTANT, marks=pytest.mark.nightly),
    pytest.param(NEIGHBOURS, marks=pytest.mark.slow),
    RETRY,
    DEPLOY,
    ENDED,
    replace(DISTANT, name="two runs, and a repeated command", faults=0, commands=REPEATED),
]

#: Larger scenarios. Unbounded scenarios are explored up to a number of worlds.
DEEPER = [
    replace(ALONE, faults=4),
    replace(RETRY, faults=1),
    replace(DEPLOY, faults=1),
    replace(ENDED, faults=1),
    replace(NEIGHBOURS, name="two runs on one machine, markers come late", scattered=True),
    replace(NEIGHBOURS, faults=2, starts=3),
    replace(DISTANT, faults=2, starts=3),
    Scenario("three runs on two machines", ((1, 0), (2, 0), (3, 0)), (0, 0, 1), faults=1),
    Scenario("a straggler, its retry and a later run", ((1, 0), (1, 1), (2, 0)), (0, 1, 0), faults=1),
]


def nothing_goes_wrong(scenario: Scenario, most: int) -> bool:
    """Assert that no world breaks a promise. Returns True if every world was visited."""
    explored = explore(scenario, Rules(), most)
    explored.check_kept(scenario.name)
    return explored.worlds < most


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_nothing_goes_wrong(scenario: Scenario) -> None:
    """Two owners in every interleaving, in the model of docs/verification.md#the-model."""
    assert nothing_goes_wrong(scenario, 500_000)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", DEEPER, ids=lambda scenario: scenario.name)
def test_nothing_goes_wrong_in_larger_worlds(scenario: Scenario) -> None:
    nothing_goes_wrong(scenario, 1_500_000)
