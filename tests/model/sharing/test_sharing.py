"""Every interleaving of owners that share a producer keeps every promise, and each rule is needed."""

from dataclasses import replace

import pytest

from tests.model.sharing.promises import explore
from tests.model.sharing.world import Claim, Rules, Scenario, active, retiring, waiting
from tests.model.world_limit import LARGE_WORLD_COUNTS

LATER_RUN = waiting(2, "B", 1, is_ready=True)
ONE = Scenario("a later run takes over", (active(1, "A"), LATER_RUN), (2,), times_out=True)
TWO_TAKERS = Scenario(
    "two later runs take over", (active(1, "A"), LATER_RUN, waiting(3, "C", 1, is_ready=True)), times_out=True
)
NEIGHBOUR = Scenario("a neighbour stays", (active(1, "A", 2), waiting(2, "B", 1, 0)), (1, 1))
FIRST_RUNS = Scenario("two runs, no claim", (waiting(1, "A", 2), waiting(2, "B", 2)), first_claim=None)
ATTEMPTS = Scenario(
    "a later attempt with the same id", (active(1, "A", starts=2), waiting(2, "A", 2, starts=2)), (2,)
)
CRASH = Scenario(
    "a worker crashes", (active(1, "A"), LATER_RUN), faults=2, crashes=True, loses_responses=True
)
NO_RESPONSE = replace(ONE, name="a commit in doubt", faults=1, loses_responses=True)
LATE_MARKERS = replace(ONE, name="markers come late", late_markers=True)
SUSPECT = Scenario("a suspect is decided alone", (active(1, "A"), LATER_RUN), suspects=1, times_out=True)
SUSPECT_CRASHES = replace(SUSPECT, name="a suspect kills its worker", faults=1, crashes=True)
LOST_MARKER = Scenario(
    "a lost marker", (active(1, "A"), LATER_RUN), faults=1, loses_markers=True, late_markers=True
)
LOST_MARKER_OF_TWO = replace(
    LOST_MARKER,
    name="a lost marker of two partitions",
    workers=(active(1, "A", 2, starts=0), waiting(2, "B", 1, 1, starts=0, is_ready=True)),
    commands=(1, 1),
    has_keys=True,
)
RETIRED = Scenario("a retired run", (active(1, "A"), retiring(2, 1), waiting(3, "C", 1)), (2,))
UPGRADE = Scenario(
    "a new owner takes over from an old owner",
    (active(1, "", is_old=True), waiting(2, "B", 2)),
    (2,),
    first_claim=Claim("partition 0", 1, 1),
)
DOWNGRADE = Scenario(
    "an old owner takes over from a new owner",
    (active(1, "A"), waiting(2, "", 2, is_old=True)),
    (2,),
    checks_zombies=False,
    times_out=True,
)
OLD_COORDINATOR = replace(TWO_TAKERS, name="an outdated coordinator answers", stale_reads=True)

SCENARIOS = [
    ONE,
    NEIGHBOUR,
    FIRST_RUNS,
    ATTEMPTS,
    CRASH,
    NO_RESPONSE,
    LATE_MARKERS,
    SUSPECT,
    LOST_MARKER,
    UPGRADE,
    DOWNGRADE,
    pytest.param(RETIRED, marks=pytest.mark.slow),
    pytest.param(SUSPECT_CRASHES, marks=pytest.mark.slow),
    pytest.param(TWO_TAKERS, marks=pytest.mark.slow),
    pytest.param(LOST_MARKER_OF_TWO, marks=pytest.mark.slow),
]

#: Larger scenarios. Unbounded scenarios are explored up to a number of worlds.
DEEPER = [
    replace(CRASH, name="workers crash", workers=(active(1, "A", starts=2), waiting(2, "B", 2, starts=2))),
    replace(TWO_TAKERS, name="two takers crash", faults=1, crashes=True, loses_responses=True),
    replace(
        TWO_TAKERS, name="takers try again", workers=(active(1, "A"), waiting(2, "B", 2), waiting(3, "C", 2))
    ),
    replace(
        LOST_MARKER_OF_TWO,
        name="a lost marker, and restarts",
        workers=(active(1, "A", 2), waiting(2, "B", 1, 1)),
    ),
    replace(
        NEIGHBOUR,
        name="two later runs, one partition each",
        workers=(
            active(1, "A", 2),
            waiting(2, "B", 1, 0),
            waiting(3, "C", 0, 1),
        ),
    ),
    replace(
        DOWNGRADE,
        name="old and new owners in turn",
        workers=(active(1, "A"), waiting(2, "", 1, is_old=True), waiting(3, "C", 2, is_ready=True)),
    ),
    replace(SUSPECT, name="a suspect, and two later runs", workers=TWO_TAKERS.workers),
]

#: Scenarios in which only the log is checked: a broken rule must lead to a wrong decision there.
LOG_OF_ONE, LOG_OF_TWO_TAKERS, LOG_OF_NO_RESPONSE, LOG_OF_SUSPECT = (
    replace(scenario, checks_zombies=False) for scenario in (ONE, TWO_TAKERS, NO_RESPONSE, SUSPECT)
)

AFTER_THE_END = "an outcome is committed after a successor has read the end of the log"
TWICE = "a command is decided twice"
STALLED = "a later run cannot decide all commands"

#: Without the check of offsets, a broken fence becomes visible.
UNCHECKED = Rules(checks_offsets=False)

#: Each rule broken, with the smallest scenario that shows it, and the broken promise.
BROKEN_RULES = {
    "the taker's own id commits the claim": (replace(UNCHECKED, claim_producer="own"), LOG_OF_ONE, TWICE),
    "the partition's id is a lock, and workers keep their ids": (
        replace(UNCHECKED, claim_producer="lock"),
        LOG_OF_ONE,
        TWICE,
    ),
    "the taker's own id commits the claim, and workers get new ids": (
        replace(UNCHECKED, claim_producer="own", new_id_for_restart=True),
        LOG_OF_ONE,
        TWICE,
    ),
    "the claim is not read again after the fence": (
        replace(UNCHECKED, reads_claim_after_fence=False),
        LOG_OF_TWO_TAKERS,
        TWICE,
    ),
    "an owner does not wait for the commit of its claim": (
        replace(UNCHECKED, waits_for_claim=False),
        LOG_OF_TWO_TAKERS,
        TWICE,
    ),
    "an owner does not read its claim back": (
        replace(UNCHECKED, reads_claim_back=False),
        LOST_MARKER,
        STALLED,
    ),
    "the end of the log is read before the fence": (
        replace(UNCHECKED, reads_end_after_claim=False),
        ONE,
        TWICE,
    ),
    "a restarted worker keeps its claims unread": (
        replace(UNCHECKED, rereads_claims=False),
        LOG_OF_ONE,
        TWICE,
    ),
    "a commit in doubt counts as aborted": (
        replace(UNCHECKED, after_doubt="aborted"),
        LOG_OF_NO_RESPONSE,
        TWICE,
    ),
    "a commit in doubt counts as committed": (
        Rules(after_doubt="committed"),
        NO_RESPONSE,
        "a command is skipped",
    ),
    "a suspect is decided alone without a handover": (
        replace(UNCHECKED, commits_handover=False),
        LOG_OF_SUSPECT,
        TWICE,
    ),
    "the worker's id commits the return of a suspect": (
        replace(UNCHECKED, returns_with_partition_id=False),
        LOG_OF_SUSPECT,
        TWICE,
    ),
    "records may get other offsets after a takeover without a fence": (UNCHECKED, DOWNGRADE, TWICE),
    "an outdated coordinator is believed": (Rules(reads_own_write=False), OLD_COORDINATOR, AFTER_THE_END),
    "an outdated coordinator is believed, and offsets are not checked": (
        replace(UNCHECKED, reads_own_write=False),
        replace(OLD_COORDINATOR, checks_zombies=False),
        TWICE,
    ),
    "a claim changes while a transaction of its writer is hidden": (
        Rules(resolves_before_claim=False),
        LOST_MARKER,
        STALLED,
    ),
    "a hidden transaction is resolved for one partition alone": (
        Rules(resolves_all_partitions=False),
        LOST_MARKER_OF_TWO,
        "a committed outcome has lost its key",
    ),
    "a hidden transaction is always aborted": (
        Rules(resolves_by_traces=False),
        LOST_MARKER,
        "the committed offset is after the last outcome",
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_sharing_breaks_no_promise(scenario: Scenario) -> None:
    result = explore(scenario, Rules(), 500_000)
    result.check_kept(scenario.name)
    assert result.worlds < 500_000


@pytest.mark.parametrize("max_worlds", LARGE_WORLD_COUNTS)
@pytest.mark.parametrize("scenario", DEEPER, ids=lambda scenario: scenario.name)
def test_sharing_breaks_no_promise_in_larger_worlds(scenario: Scenario, max_worlds: int) -> None:
    explore(scenario, Rules(), max_worlds).check_kept(scenario.name)


@pytest.mark.parametrize(
    "scenario", [ONE, NEIGHBOUR, SUSPECT, LOST_MARKER], ids=lambda scenario: scenario.name
)
def test_fences_suffice_without_offsets(scenario: Scenario) -> None:
    explore(scenario, UNCHECKED).check_kept(scenario.name)


@pytest.mark.slow
def test_offsets_suffice_without_fences() -> None:
    """Each command is decided once, even if no owner reads the current claim."""
    scenario = replace(OLD_COORDINATOR, checks_zombies=False)
    explore(scenario, Rules(reads_own_write=False)).check_kept(scenario.name)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [ONE, NEIGHBOUR, CRASH], ids=lambda scenario: scenario.name)
def test_locks_suffice_with_new_ids(scenario: Scenario) -> None:
    rules = replace(UNCHECKED, claim_producer="lock", new_id_for_restart=True)
    explore(scenario, rules).check_kept(scenario.name)


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_broken_rule_of_sharing_has_a_counterexample(rule: str) -> None:
    rules, scenario, broken_promise = BROKEN_RULES[rule]
    explore(scenario, rules).check_broken(broken_promise)
