"""Random histories of deferred commands and of requests about them, with everything that clients may send."""

import random
from typing import Any

from cqrs_cli.core.decision_rules import DecisionRules
from tests.core.deferral.world import RULES, World, steps
from tests.support.commands import command

IDS = "wxyz"


def played(seed: int, rules: DecisionRules = RULES, most: int = 1000) -> World:
    """Run `most` random steps: clients send, an owner decides and resubmits, and time passes."""
    choice = random.Random(seed)
    world = World(tuple(_drawn(choice) for _ in range(8)), (), rules=rules)
    for _ in range(most):
        if not (after := list(steps(world))):
            break
        world = choice.choice(after)
    return world


def _drawn(choice: random.Random) -> str:
    """Return a command, or a request about one, possibly about itself. There are few ids, so requests find commands."""
    waits = {"notbefore": f"1970-01-01T00:00:0{choice.randrange(1, 5)}Z"} if choice.random() < 0.6 else {}
    ends = {"expirytime": f"1970-01-01T00:00:0{choice.randrange(1, 6)}Z"} if choice.random() < 0.2 else {}
    kind, data = choice.choice([_go, _request])(choice)
    sent = command(kind, "a", choice.choice(IDS), data, **waits, **ends)
    assert sent.value is not None
    return sent.value.decode()


def _go(choice: random.Random) -> tuple[str, dict[str, Any]]:
    return "way.Go", {"after": choice.randrange(4)}


def _request(choice: random.Random) -> tuple[str, dict[str, Any]]:
    return choice.choice(["cqrs.Cancel", "cqrs.Release"]), {"id": choice.choice(IDS)}
