"""An aggregate with nested messages: objects, lists of objects, tables and closed sets of values."""

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Customer:
    name: str
    zip: str = ""
    phones: list[str] = field(default_factory=list)


class Line(msgspec.Struct, frozen=True):
    sku: str
    quantity: Annotated[int, msgspec.Meta(ge=1, description="How many of it.")] = 1
    parts: "tuple[Line, ...]" = ()


class Place(cqrs.Command):
    """Order something."""

    customer: Customer
    lines: list[Line] = []  # noqa: RUF012 - each message gets its own copy
    tag: frozenset[str] = frozenset()
    notes: dict[str, Line] = {}  # noqa: RUF012 - each message gets its own copy
    colour: Colour = Colour.RED
    speed: Literal["slow", "fast"] | None = None
    pair: tuple[int, str] | None = None
    extra: Any = None


class Placed(cqrs.Event):
    customer: Customer


class Order(cqrs.State):
    customer: Customer | None = None


def decide(command: Place, order: Order) -> list[Placed]:
    return [Placed(command.customer)]


def evolve(order: Order, event: Placed) -> Order:
    return Order(event.customer)


SHOPPING = Aggregate.of("shopping", cqrs.Decider(decide, evolve, initial=Order()))
