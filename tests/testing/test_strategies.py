import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli import field
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.testing.strategies import commands


class Colour(enum.Enum):
    RED = "red"


class Tree(cqrs.Command):
    left: "Tree | None" = None
    note: Any = None


@dataclass(frozen=True, slots=True)
class Home:
    city: str
    since: datetime


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
    price_each: Decimal
    home: Home
    share: Annotated[int, msgspec.Meta(ge=1, lt=5)] = 1
    ratio: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    code: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")] = "ABC"
    label: Annotated[str, msgspec.Meta(min_length=1, max_length=3)] = "x"
    even: Annotated[int, msgspec.Meta(multiple_of=2)] = 0
    few: Annotated[list[int], msgspec.Meta(min_length=1, max_length=2)] = field(default_factory=lambda: [1])
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
any_command = commands(aggregate)

#: The first example is sufficient, because shrinking it took a minute.
FIRST_EXAMPLE = settings(max_examples=5_000, phases=[Phase.generate])


@given(any_command)
def test_drawn_commands_survive_the_wire(command: cqrs.Command) -> None:
    decode = aggregate.decode_command[f"everything.{type(command).__name__}"]
    assert decode(encode_json(command)) == command


def test_fields_with_defaults_are_drawn() -> None:
    assert find(any_command, lambda c: isinstance(c, Everything) and c.count != 1, settings=FIRST_EXAMPLE)


def test_types_that_contain_themselves_are_drawn() -> None:
    assert find(
        any_command,
        lambda c: isinstance(c, Tree) and c.left is not None and c.left.left is not None,
        settings=FIRST_EXAMPLE,
    )


def test_two_commands_may_share_a_text() -> None:
    """Two commands may name the same thing, which would rarely happen by chance."""
    pairs = st.tuples(any_command, any_command)
    assert find(pairs, _same_name, settings=FIRST_EXAMPLE)


def _same_name(pair: tuple[cqrs.Command, cqrs.Command]) -> bool:
    first, second = pair
    return (
        isinstance(first, Everything) and isinstance(second, Everything) and first.name == second.name != ""
    )


def test_times_have_an_offset() -> None:
    assert find(
        any_command,
        lambda c: isinstance(c, Everything) and c.when.utcoffset() != timedelta(0),
        settings=FIRST_EXAMPLE,
    )
