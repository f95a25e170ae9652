"""The JSON contract of an aggregate, with parts of its code replaced."""

import sys
from types import ModuleType
from typing import Any

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.compatibility import contract_of

SOURCE = """
import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
import msgspec
import cqrs_cli as cqrs
from cqrs_cli.core.personal.personal_fields import Personal, personal

class Colour(enum.Enum):
    {colours}

@dataclass(frozen=True, slots=True)
class Customer:
    name: str
    {customer}

class Tree(msgspec.Struct, frozen=True):
    {tree}
    left: "Tree | None" = None

class Put(cqrs.Command):
    {put}

class Done(cqrs.Event):
    {done}

{more}

class Box(cqrs.State):
    {box}

def decide(command: {commands}, box: Box) -> list[Done]:
    return []

def evolve(box: Box, event: {events}) -> Box:
    return box

decider = cqrs.Decider(decide, evolve, initial=Box(), {decider})
"""
DEFAULT_PARTS = {
    "colours": "RED = 'red'; BLUE = 'blue'",
    "customer": "",
    "tree": "",
    "put": "n: int; colour: Colour = Colour.RED",
    "done": "n: int; who: Customer | None = None; colour: Colour = Colour.RED; tree: Tree | None = None",
    "more": "class Old(cqrs.Event):\n    pass\nclass Go(cqrs.Command):\n    pass",
    "box": "n: int = 0",
    "commands": "Put | Go",
    "events": "Done | Old",
    "decider": "",
}


def contract_with(**parts: str) -> dict[str, Any]:
    """Return the contract of the aggregate with these parts."""
    module = sys.modules["made"] = ModuleType("made")
    try:
        exec(SOURCE.format(**(DEFAULT_PARTS | parts)), vars(module))  # noqa: S102 - the test's own text
        return contract_of(Aggregate.of("made", module.decider))
    finally:
        del sys.modules["made"]
