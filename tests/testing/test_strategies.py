import enum
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from hypothesis import find, given
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.testing.strategies import commands


class Colour(enum.Enum):
    RED = "red"


class Tree(cqrs.Command):
    left: "Tree | None" = None
    note: Any = None


class Everything(cqrs.Command):
    name: str
    price: float
    colour: Colour
    kind: Literal["a", "b"]
    when: datetime
    pair: tuple[int, str]
    many: tuple[int, ...]
    listed: list[Tree]
    once: frozenset[str]
    table: dict[str, bool]
    view: Mapping[str, int]
    count: int = 1


class Done(cqrs.Event):
    pass


class Nothing(cqrs.State):
    pass


def decide(command: Tree | Everything, nothing: Nothing) -> Iterator[Done]:
    yield Done()


def evolve(nothing: Nothing, event: Done) -> Nothing:
    return nothing


aggregate = Aggregate.of("everything", cqrs.Decider(decide, evolve, initial=Nothing()))
anything = commands(aggregate)


@given(anything)
def test_drawn_commands_survive_the_wire(command: cqrs.Command) -> None:
    decode = aggregate.decode_command[f"everything.{type(command).__name__}"]
    assert decode(encode_json(command)) == command


def test_fields_with_defaults_are_drawn() -> None:
    assert find(anything, lambda c: isinstance(c, Everything) and c.count != 1)


def test_types_that_contain_themselves_are_drawn() -> None:
    assert find(anything, lambda c: isinstance(c, Tree) and c.left is not None and c.left.left is not None)


def test_texts_meet_again() -> None:
    pairs = st.tuples(anything, anything)
    assert find(pairs, lambda p: all(isinstance(c, Everything) and c.name == "a" for c in p))
