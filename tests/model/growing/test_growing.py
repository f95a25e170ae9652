"""Every interleaving around a repartitioning keeps every promise, and each rule is needed."""

from dataclasses import replace

import pytest

from tests.model.growing.promises import explore
from tests.model.growing.world import Command, Rules, Scenario
from tests.model.world_limit import LARGE_WORLD_COUNTS

pytestmark = pytest.mark.slow

#: Keys by their hashes: `b` moves from 0 to 1 of 2, `c` from 0 over 1 to 3 of 4.
B1, B2, A1 = Command("plain", "b1", 1), Command("plain", "b2", 1), Command("plain", "a1", 0)
C3, C4 = Command("plain", "c3", 3), Command("plain", "c4", 3)
N, M, K = Command("later", "n", 1), Command("later", "m", 1), Command("cancel", "K", 1)

ORDER = Scenario("commands of one client", ((B1, B2),), starts=(1, 1))
REPEATED = Scenario("a command repeated by another", ((B1,), (B1,)), starts=(1, 1), crashes=0)
STALE = Scenario("a broker that is behind", ((B1, B2),), starts=(3, 2), stale=1)
WAITS = Scenario("a command that waits, and another", ((N,), (B1,)), crashes=0)
FAILS = Scenario("a command that waits and fails", ((N,),), fails=True)
TWO_WAIT = Scenario("two that wait at one offset", ((N,), (M,)), starts=(1, 1), crashes=0)
BARE = Scenario("one that waits is cancelled, no crash", ((N, K),), starts=(1, 1), crashes=0)
CANCELLED = Scenario("one that waits is cancelled", ((N, K),))
DELETED = Scenario("compaction and retention", ((N,),), starts=(2, 3), compactions=2, deletions=1)
TWICE = Scenario("two growths", ((C3, C4),), starts=(1, 1, 0, 1), counts=(1, 2, 4), crashes=0)

SCENARIOS = [ORDER, REPEATED, STALE, WAITS, FAILS, TWO_WAIT, CANCELLED, DELETED, TWICE]

#: Larger worlds: more clients, more starts, crashes.
DEEPER = [
    replace(ORDER, name="commands of one client, and another", clients=((B1, B2), (A1,)), starts=(2, 2)),
    replace(REPEATED, name="a command repeated by two", clients=((B1, B1), (B1,)), starts=(2, 2), crashes=1),
    replace(WAITS, name="a command that waits, another, and a crash", crashes=1),
    replace(WAITS, name="a command that waits is repeated", clients=((N, N),), crashes=1),
    replace(TWO_WAIT, name="two that wait at one offset, and a crash", starts=(2, 2), crashes=1),
    replace(CANCELLED, name="one that waits is cancelled by another", clients=((N,), (K,))),
    replace(CANCELLED, name="one is cancelled, a broker is behind", starts=(3, 2), stale=1),
    replace(DELETED, name="compaction and retention, and another command", clients=((N, B1),)),
    replace(TWICE, name="two growths, two starts", starts=(2, 1, 0, 1)),
    replace(
        TWICE, name="two growths, one that waits", clients=((Command("later", "n", 3),),), starts=(2, 2, 0, 2)
    ),
    replace(TWICE, name="two growths, repeated", clients=((C3, C3),), starts=(2, 2, 1, 1), crashes=1),
]

OVERTAKEN, TWICE_DECIDED = "a command is overtaken", "a command is decided twice"
WRONG, UNTRUE = "a command is in the wrong partition", "an owner knows what the logs do not say"

#: Each rule broken, with the smallest scenario that shows it, and the broken promise.
BREAKS = {
    "a child decides before its parent has split": (Rules(wait=False), ORDER, UNTRUE),
    "what was sent before is not settled": (Rules(settle=False), ORDER, OVERTAKEN),
    "the count is metadata's": (Rules(count_from_lineage=False), ORDER, WRONG),
    "the claim's count is not looked at": (Rules(claim=False), STALE, UNTRUE),
    "keys of entries are offsets": (Rules(partition_in_keys=False), TWO_WAIT, "what an owner said again"),
    "what moves is said again while settling": (Rules(silence=False), FAILS, "what an owner said again"),
    "… and is inherited as said": (Rules(silence=False, park_inherited=False), BARE, "a command waits"),
    "entries are read through the chain": (Rules(adopt=False), DELETED, UNTRUE),
    "any partition decides": (Rules(home=False), ORDER, UNTRUE),
    "moved commands are refused": (Rules(forward=False), ORDER, WRONG),
    "ids are not inherited": (Rules(inherit_ids=False), REPEATED, TWICE_DECIDED),
    "two growths are one split": (Rules(one_growth_at_a_time=False), TWICE, OVERTAKEN),
    "forwards go straight to the last home": (Rules(hop_by_hop=False), TWICE, OVERTAKEN),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_repartitioning_breaks_no_promise(scenario: Scenario) -> None:
    explore(scenario, Rules(), 500_000).check_kept(scenario.name)


@pytest.mark.parametrize("max_worlds", LARGE_WORLD_COUNTS)
@pytest.mark.parametrize("scenario", DEEPER, ids=lambda scenario: scenario.name)
def test_larger_repartitioning_worlds_break_no_promise(scenario: Scenario, max_worlds: int) -> None:
    explore(scenario, Rules(), max_worlds).check_kept(scenario.name)


@pytest.mark.parametrize("rule", BREAKS)
def test_broken_rule_has_a_counterexample(rule: str) -> None:
    rules, scenario, broken_promise = BREAKS[rule]
    explore(scenario, rules).check_broken(broken_promise)
