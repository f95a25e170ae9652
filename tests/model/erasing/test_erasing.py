"""Every interleaving around an erasure keeps every promise, and each rule is needed."""

from dataclasses import replace

import pytest

from tests.model.erasing.promises import explore
from tests.model.erasing.world import Command, Rules, Scenario
from tests.model.world_limit import LARGE_WORLD_COUNTS

pytestmark = pytest.mark.slow

W1, W2 = Command("write", "w1", "s1"), Command("write", "w2", "s2")
P, E = Command("park", "p", "s3"), Command("erase", "E")

ONE = Scenario("a write, an erasure", (W1, E))
AGAIN = Scenario("a write, an erasure, a write", (W1, E, W2), checkpoints=0, losses=0)
REPEATED = Scenario("a write is repeated behind an erasure", (W1, E, W1), checkpoints=0)
PARKED = Scenario("a parked write, an erasure", (P, E), losses=0)
REWRAPPED = Scenario("a key is wrapped anew", (W1, E, W2), rewraps=1, projects=False, checkpoints=0)
RESTORED = Scenario("a backup is restored", (W1, E), restores=1, checkpoints=0, losses=0, starts=4)

SCENARIOS = [ONE, AGAIN, REPEATED, PARKED, REWRAPPED, RESTORED]

#: Larger worlds: more copies that may lag, and more commands.
DEEPER = [
    replace(AGAIN, name="a write, an erasure, a write, with copies", checkpoints=1, losses=1),
    replace(PARKED, name="a parked write, an erasure, with losses", losses=1),
    Scenario("two erasures", (W1, E, W2, E), projects=False),
    Scenario("a parked write, another, an erasure", (P, W1, E), projects=False),
    Scenario("a parked write, an erasure, a write", (P, E, W2), projects=False),
    Scenario(
        "a parked write between two, an erasure", (W1, P, E, W2), losses=0, checkpoints=0, projects=False
    ),
    Scenario("two erasures, projected", (W1, E, W2, E), losses=0, checkpoints=0),
    replace(AGAIN, name="two crashes", crashes=2, starts=4, checkpoints=1, losses=1),
    replace(AGAIN, name="batches of three", batch=3, checkpoints=2, losses=2, compactions=3),
    replace(RESTORED, name="a backup is restored, another write", todo=(W1, E, W2)),
    replace(RESTORED, name="a backup is restored, with copies", checkpoints=1, losses=1),
    replace(REWRAPPED, name="a key is wrapped anew while it is projected", todo=(W1, E), projects=True),
]

KEY_LIVES = "the key of an erased text is still somewhere"
OTHER_KEY = "an owner has another key than one that starts now"

#: Each rule broken, with the smallest scenario that shows it, and the broken promise.
BREAKS = {
    "the tombstone is written behind the commit": (Rules(one_transaction=False), ONE, OTHER_KEY),
    "states are written plain": (
        Rules(sealed_states=False),
        ONE,
        "an erased text stands in a shard or a checkpoint",
    ),
    "checkpoints have the cache of keys": (Rules(keys_not_in_checkpoints=False), ONE, KEY_LIVES),
    "the shard is written before the cache of keys": (Rules(cache_before_shard=False), ONE, OTHER_KEY),
    "a sealed value names no key": (Rules(named_keys=False), AGAIN, "an erased event is opened with another"),
    "the end of the keys is what shows": (
        Rules(high_watermark=False),
        ONE,
        "an event that nobody erased is taken for erased",
    ),
    "an erasure ends no key in caches": (Rules(erased_ends_its_key=False), ONE, OTHER_KEY),
    "fingerprints have personal fields": (
        Rules(personal_fields_left_out=False),
        REPEATED,
        "a repetition is taken for another command",
    ),
    "a tool wraps keys anew": (
        Rules(owner_wraps=False),
        REWRAPPED,
        "what was never erased has lost its key",
    ),
    "parked commands outlive their key": (
        Rules(parked_end_with_their_key=False),
        PARKED,
        "a command is decided with a placeholder",
    ),
    "projections do not hear of it": (
        Rules(projections_hear=False),
        ONE,
        "an erased text stands in the projection's rows",
    ),
    "no ledger is sent again": (Rules(ledger=False), RESTORED, "a restored backup brings back"),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_erasure_breaks_no_promise(scenario: Scenario) -> None:
    explore(scenario, Rules(), 500_000).check_kept(scenario.name)


@pytest.mark.parametrize("max_worlds", LARGE_WORLD_COUNTS)
@pytest.mark.parametrize("scenario", DEEPER, ids=lambda scenario: scenario.name)
def test_erasure_breaks_no_promise_in_larger_worlds(scenario: Scenario, max_worlds: int) -> None:
    explore(scenario, Rules(), max_worlds).check_kept(scenario.name)


@pytest.mark.parametrize("rule", BREAKS)
def test_broken_rule_of_erasing_has_a_counterexample(rule: str) -> None:
    rules, scenario, broken_promise = BREAKS[rule]
    explore(scenario, rules).check_broken(broken_promise)
