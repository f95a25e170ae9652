"""Every interleaving around an erasure keeps every promise, and each rule is needed."""

from dataclasses import replace

import pytest

from tests.model.erasing.promises import explore
from tests.model.erasing.world import Command, Rules, Scenario
from tests.model.world_limit import LARGE_WORLD_COUNTS

pytestmark = pytest.mark.slow

W1, W2 = Command("write", "w1", "s1"), Command("write", "w2", "s2")
D, E = Command("defer", "d", "s3"), Command("erase", "E")

ONE = Scenario("a write, an erasure", (W1, E))
AGAIN = Scenario("a write, an erasure, a write", (W1, E, W2), checkpoints=0, losses=0)
REPEATED = Scenario("a write is repeated after an erasure", (W1, E, W1), checkpoints=0)
DEFERRED = Scenario("a deferred write, an erasure", (D, E), losses=0)
REWRAPPED = Scenario("a key is re-wrapped", (W1, E, W2), rewraps=1, projects=False, checkpoints=0)
RESTORED = Scenario("a backup is restored", (W1, E), restores=1, checkpoints=0, losses=0, starts=4)

SCENARIOS = [ONE, AGAIN, REPEATED, DEFERRED, REWRAPPED, RESTORED]

#: Larger worlds: more copies that may lag, and more commands.
DEEPER = [
    replace(AGAIN, name="a write, an erasure, a write, with copies", checkpoints=1, losses=1),
    replace(DEFERRED, name="a deferred write, an erasure, with losses", losses=1),
    Scenario("two erasures", (W1, E, W2, E), projects=False),
    Scenario("a deferred write, another, an erasure", (D, W1, E), projects=False),
    Scenario("a deferred write, an erasure, a write", (D, E, W2), projects=False),
    Scenario(
        "a deferred write between two, an erasure", (W1, D, E, W2), losses=0, checkpoints=0, projects=False
    ),
    Scenario("two erasures, projected", (W1, E, W2, E), losses=0, checkpoints=0),
    replace(AGAIN, name="two crashes", crashes=2, starts=4, checkpoints=1, losses=1),
    replace(AGAIN, name="batches of three", batch=3, checkpoints=2, losses=2, compactions=3),
    replace(RESTORED, name="a backup is restored, another write", unsent=(W1, E, W2)),
    replace(RESTORED, name="a backup is restored, with copies", checkpoints=1, losses=1),
    replace(REWRAPPED, name="a key is re-wrapped while it is projected", unsent=(W1, E), projects=True),
]

KEY_LIVES = "the key of an erased text still exists"
OTHER_KEY = "an owner has another key than an owner that starts now"

#: Each rule broken, with the smallest scenario that shows it, and the broken promise.
BROKEN_RULES = {
    "the tombstone is written after the commit": (Rules(one_transaction=False), ONE, OTHER_KEY),
    "states are written in plain text": (
        Rules(encrypts_states=False),
        ONE,
        "a shard or a checkpoint contains an erased text",
    ),
    "checkpoints contain the key cache": (Rules(keys_not_in_checkpoints=False), ONE, KEY_LIVES),
    "the shard is written before the key cache": (Rules(cache_before_shard=False), ONE, OTHER_KEY),
    "encrypted values name no key": (
        Rules(values_name_keys=False),
        AGAIN,
        "an erased event is decrypted with another key",
    ),
    "keys are read only to the last stable offset": (
        Rules(high_watermark=False),
        ONE,
        "the projection treats an event as erased that was not erased",
    ),
    "an erasure removes no key from caches": (Rules(erased_ends_its_key=False), ONE, OTHER_KEY),
    "fingerprints include personal fields": (
        Rules(fingerprints_omit_personal=False),
        REPEATED,
        "a repeated command is ID_REUSED",
    ),
    "a tool re-wraps keys": (
        Rules(only_owner_rewraps=False),
        REWRAPPED,
        "a text that was not erased has lost its key",
    ),
    "a deferred command is decided without its key": (
        Rules(deferred_writes_end_with_key=False),
        DEFERRED,
        "a command is decided with a redacted text",
    ),
    "projections do not subscribe to Erased": (
        Rules(projections_subscribe=False),
        ONE,
        "a row of the projection contains an erased text",
    ),
    "erasures are not repeated after a restore": (
        Rules(repeats_erasures=False),
        RESTORED,
        "a restored backup contains",
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_erasure_breaks_no_promise(scenario: Scenario) -> None:
    explore(scenario, Rules(), 500_000).check_kept(scenario.name)


@pytest.mark.parametrize("max_worlds", LARGE_WORLD_COUNTS)
@pytest.mark.parametrize("scenario", DEEPER, ids=lambda scenario: scenario.name)
def test_erasure_breaks_no_promise_in_larger_worlds(scenario: Scenario, max_worlds: int) -> None:
    explore(scenario, Rules(), max_worlds).check_kept(scenario.name)


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_broken_rule_of_erasing_has_a_counterexample(rule: str) -> None:
    rules, scenario, broken_promise = BROKEN_RULES[rule]
    explore(scenario, rules).check_broken(broken_promise)
