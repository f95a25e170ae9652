"""Every interleaving of two owners of one partition, within bounds, keeps every promise of the protocol."""

from dataclasses import replace

import pytest

from tests.model.deciding import REPEATED
from tests.model.explore import explore
from tests.model.rules import Rules
from tests.model.world import Scenario

TWO_RUNS, TWO_ATTEMPTS = ((1, 0), (2, 0)), ((1, 0), (1, 1))
SAME_MACHINE, TWO_MACHINES = (0, 0), (0, 1)

ONE_RUN = Scenario("one run", ((1, 0),), (0,), faults=2, starts=3)
RUNS_ON_TWO_MACHINES = Scenario("two runs on two machines", TWO_RUNS, TWO_MACHINES, faults=1)
RUNS_ON_ONE_MACHINE = Scenario("two runs on one machine", TWO_RUNS, SAME_MACHINE, faults=1)
RETRY = Scenario("an earlier and a later attempt", TWO_ATTEMPTS, SAME_MACHINE, faults=0)
NEW_RUN = Scenario(
    "a new run folds before its fence, markers come late",
    TWO_RUNS,
    SAME_MACHINE,
    0,
    warms=True,
    late_markers=True,
)
RETIRED_RUN = Scenario(
    "a run is taken over while it is retired", TWO_RUNS, SAME_MACHINE, faults=0, may_be_retired=True
)
SCENARIOS = [
    ONE_RUN,
    replace(ONE_RUN, name="one run, and a repeated command", commands=REPEATED),
    replace(
        ONE_RUN,
        name="one run that folds before its fence, markers come late",
        faults=1,
        warms=True,
        late_markers=True,
    ),
    replace(ONE_RUN, name="a run that may be retired", faults=1, may_be_retired=True),
    pytest.param(RUNS_ON_TWO_MACHINES, marks=pytest.mark.nightly),
    pytest.param(RUNS_ON_ONE_MACHINE, marks=pytest.mark.slow),
    RETRY,
    NEW_RUN,
    RETIRED_RUN,
    replace(RUNS_ON_TWO_MACHINES, name="two runs, and a repeated command", faults=0, commands=REPEATED),
    replace(ONE_RUN, name="one run that omits positions", faults=1, omits_positions=True),
    replace(
        ONE_RUN,
        name="one run that omits positions, and its outcomes are deleted",
        omits_positions=True,
        deletes_outcomes=True,
    ),
    replace(RETRY, name="two attempts that omit positions", omits_positions=True),
    replace(NEW_RUN, name="two runs that omit positions, markers come late", omits_positions=True),
    replace(
        RUNS_ON_TWO_MACHINES,
        name="two runs on two machines that omit positions",
        faults=0,
        omits_positions=True,
    ),
    pytest.param(
        replace(RETIRED_RUN, name="a retired run that omits positions", omits_positions=True),
        marks=pytest.mark.slow,
    ),
]

#: Larger scenarios. Unbounded scenarios are explored up to a number of worlds.
DEEPER = [
    replace(ONE_RUN, faults=4),
    replace(RETRY, faults=1),
    replace(NEW_RUN, faults=1),
    replace(NEW_RUN, name="two runs that omit positions", faults=1, omits_positions=True),
    replace(RETIRED_RUN, faults=1),
    replace(RUNS_ON_ONE_MACHINE, name="two runs on one machine, markers come late", late_markers=True),
    replace(RUNS_ON_ONE_MACHINE, faults=2, starts=3),
    replace(RUNS_ON_TWO_MACHINES, faults=2, starts=3),
    Scenario("three runs on two machines", ((1, 0), (2, 0), (3, 0)), (0, 0, 1), faults=1),
    Scenario("two attempts and a later run", ((1, 0), (1, 1), (2, 0)), (0, 1, 0), faults=1),
]


def explore_without_violation(scenario: Scenario, max_worlds: int) -> bool:
    """Assert that no world breaks a promise. Returns True if every world was visited."""
    result = explore(scenario, Rules(), max_worlds)
    result.check_kept(scenario.name)
    return result.worlds < max_worlds


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_promise_is_broken(scenario: Scenario) -> None:
    """Two owners in every interleaving, in the model of docs/verification.md#the-model."""
    assert explore_without_violation(scenario, 500_000)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", DEEPER, ids=lambda scenario: scenario.name)
def test_no_promise_is_broken_in_larger_worlds(scenario: Scenario) -> None:
    explore_without_violation(scenario, 1_500_000)
