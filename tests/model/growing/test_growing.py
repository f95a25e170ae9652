"""Every interleaving around a repartitioning keeps every promise, and each rule is needed."""

from dataclasses import replace

import pytest

from tests.model.growing.promises import explore
from tests.model.growing.world import Command, Rules, Scenario
from tests.model.world_limit import LARGE_WORLD_COUNTS

pytestmark = pytest.mark.slow

#: Commands with id and key. Key 1 moves from partition 0 to 1 of 2, key 3 from 0 over 1 to 3 of 4, key 0 never.
B1, B2, A1 = Command("plain", "b1", 1), Command("plain", "b2", 1), Command("plain", "a1", 0)
C3, C4 = Command("plain", "c3", 3), Command("plain", "c4", 3)
N, M, K = Command("later", "n", 1), Command("later", "m", 1), Command("cancel", "K", 1)

ORDER = Scenario("commands of one client", ((B1, B2),), starts=(1, 1))
REPEATED = Scenario("a command repeated by another", ((B1,), (B1,)), starts=(1, 1), crashes=0)
STALE = Scenario("a broker that lags", ((B1, B2),), starts=(3, 2), stale=1)
WAITS = Scenario("a deferred command, and another", ((N,), (B1,)), crashes=0)
FAILS = Scenario("a deferred command that fails", ((N,),), fails=True)
TWO_WAIT = Scenario("two deferred commands at one offset", ((N,), (M,)), starts=(1, 1), crashes=0)
BARE = Scenario("a deferred command is cancelled, no crash", ((N, K),), starts=(1, 1), crashes=0)
CANCELLED = Scenario("a deferred command is cancelled", ((N, K),))
DELETED = Scenario("compaction and retention", ((N,),), starts=(2, 3), compactions=2, deletions=1)
TWICE = Scenario("two repartitionings", ((C3, C4),), starts=(1, 1, 0, 1), counts=(1, 2, 4), crashes=0)

SCENARIOS = [ORDER, REPEATED, STALE, WAITS, FAILS, TWO_WAIT, CANCELLED, DELETED, TWICE]

#: Larger worlds: more clients, more starts, crashes.
DEEPER = [
    replace(ORDER, name="commands of one client, and another", clients=((B1, B2), (A1,)), starts=(2, 2)),
    replace(REPEATED, name="a command repeated by two", clients=((B1, B1), (B1,)), starts=(2, 2), crashes=1),
    replace(WAITS, name="a deferred command, another, and a crash", crashes=1),
    replace(WAITS, name="a deferred command is repeated", clients=((N, N),), crashes=1),
    replace(TWO_WAIT, name="two deferred commands at one offset, and a crash", starts=(2, 2), crashes=1),
    replace(CANCELLED, name="a deferred command is cancelled by another client", clients=((N,), (K,))),
    replace(CANCELLED, name="a deferred command is cancelled, a broker lags", starts=(3, 2), stale=1),
    replace(DELETED, name="compaction and retention, and another command", clients=((N, B1),)),
    replace(TWICE, name="two repartitionings, two starts", starts=(2, 1, 0, 1)),
    replace(
        TWICE,
        name="two repartitionings, a deferred command",
        clients=((Command("later", "n", 3),),),
        starts=(2, 2, 0, 2),
    ),
    replace(TWICE, name="two repartitionings, repeated", clients=((C3, C3),), starts=(2, 2, 1, 1), crashes=1),
]

OVERTAKEN, TWICE_DECIDED = "a command is overtaken", "a command is decided twice"
WRONG_PARTITION, WRONG_MEMORY = "a command is WRONG_PARTITION", "the memory of an owner differs from the logs"

#: Each rule broken, with the smallest scenario that shows it, and the broken promise.
BROKEN_RULES = {
    "a child decides before the split of its parent": (Rules(child_waits=False), ORDER, WRONG_MEMORY),
    "a parent splits before it has decided earlier commands": (Rules(parent_drains=False), ORDER, OVERTAKEN),
    "an owner takes the count from metadata": (Rules(count_from_lineage=False), ORDER, WRONG_PARTITION),
    "an owner ignores the count in the claim": (Rules(checks_claim=False), STALE, WRONG_MEMORY),
    "keys of entries contain no partition": (
        Rules(partition_in_keys=False),
        TWO_WAIT,
        "a resubmitted command",
    ),
    "a command that moves is resubmitted while its parent drains": (
        Rules(resubmission_pauses=False),
        FAILS,
        "a resubmitted command",
    ),
    "… and the child inherits it as resubmitted": (
        Rules(resubmission_pauses=False, imports_as_waiting=False),
        BARE,
        "a deferred command waits",
    ),
    "entries are not imported into the child's topic": (Rules(imports_entries=False), DELETED, WRONG_MEMORY),
    "any partition decides": (Rules(checks_partition=False), ORDER, WRONG_MEMORY),
    "commands of moved keys are not forwarded": (Rules(forwards=False), ORDER, WRONG_PARTITION),
    "ids are not inherited": (Rules(inherits_ids=False), REPEATED, TWICE_DECIDED),
    "one split covers two repartitionings": (Rules(one_repartitioning_at_a_time=False), TWICE, OVERTAKEN),
    "commands are forwarded to the last partition at once": (
        Rules(forwards_hop_by_hop=False),
        TWICE,
        OVERTAKEN,
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_repartitioning_breaks_no_promise(scenario: Scenario) -> None:
    explore(scenario, Rules(), 500_000).check_kept(scenario.name)


@pytest.mark.parametrize("max_worlds", LARGE_WORLD_COUNTS)
@pytest.mark.parametrize("scenario", DEEPER, ids=lambda scenario: scenario.name)
def test_larger_repartitioning_worlds_break_no_promise(scenario: Scenario, max_worlds: int) -> None:
    explore(scenario, Rules(), max_worlds).check_kept(scenario.name)


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_broken_rule_has_a_counterexample(rule: str) -> None:
    rules, scenario, broken_promise = BROKEN_RULES[rule]
    explore(scenario, rules).check_broken(broken_promise)
