"""Random histories of deferred commands and of requests about them, with everything that clients may send."""

import random
from typing import Any

from cqrs_cli.core.decision_rules import DecisionRules
from tests.core.deferral.world import RULES, World, steps
from tests.support.commands import command

IDS = "wxyz"


def random_world(seed: int, rules: DecisionRules = RULES, max_steps: int = 1000) -> World:
    """Run `max_steps` random steps: clients send, an owner decides and resubmits, and time passes."""
    choice = random.Random(seed)
    world = World(tuple(_random_command(choice) for _ in range(8)), (), rules=rules)
    for _ in range(max_steps):
        if not (next_worlds := list(steps(world))):
            break
        world = choice.choice(next_worlds)
    return world


def _random_command(choice: random.Random) -> str:
    """Return a command, or a request about a command or about itself. There are few ids, so requests find commands."""
    not_before = (
        {"notbefore": f"1970-01-01T00:00:0{choice.randrange(1, 5)}Z"} if choice.random() < 0.6 else {}
    )
    expiry = {"expirytime": f"1970-01-01T00:00:0{choice.randrange(1, 6)}Z"} if choice.random() < 0.2 else {}
    type, data = choice.choice([_go, _request])(choice)
    sent_command = command(type, "a", choice.choice(IDS), data, **not_before, **expiry)
    assert sent_command.value is not None
    return sent_command.value.decode()


def _go(choice: random.Random) -> tuple[str, dict[str, Any]]:
    return "way.Go", {"after": choice.randrange(4)}


def _request(choice: random.Random) -> tuple[str, dict[str, Any]]:
    return choice.choice(["cqrs.Cancel", "cqrs.Release"]), {"id": choice.choice(IDS)}
