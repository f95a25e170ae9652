"""A command is read completely or refused: no nested field is lost, and each time and number has its full meaning."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pytest

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.values import command_decoder

Decode = Callable[[bytes], cqrs.Command]


@dataclass(frozen=True, slots=True)
class Address:
    city: str


class Point(NamedTuple):
    x: int
    of: Address | None = None


class Size(TypedDict):
    width: int


class Cat(msgspec.Struct, tag=True, frozen=True):
    name: str
    home: Address | None = None


class Dog(msgspec.Struct, tag=True, frozen=True):
    name: str


class Move(cqrs.Command):
    to: Address | None = None
    via: list[Address] = []  # noqa: RUF012 - each message gets its own
    known: dict[str, Address] = {}  # noqa: RUF012 - each message gets its own
    point: Point | None = None
    size: Size | None = None
    pet: Cat | Dog | None = None
    more: Any = None
    at: datetime | None = None
    price: Decimal = Decimal(1)


@pytest.fixture
def decode() -> Decode:
    return command_decoder(Move)


@pytest.mark.parametrize(
    "data",
    [
        {"to": {"city": "x"}, "via": [{"city": "y"}], "known": {"a": {"city": "z"}}},
        {"point": [1, {"city": "x"}], "size": {"width": 1}},
        {"pet": {"type": "Cat", "name": "x", "home": {"city": "y"}}},
        {"pet": {"type": "Dog", "name": "x"}},
        {"more": {"anything": [1, {"else": None}]}},
        {"more": [{"anything": 1}]},
        {"at": "2026-11-21T01:02:03Z", "price": "1.50"},
        {"at": "2026-11-21T01:02:03+02:00"},
    ],
)
def test_known_fields_are_accepted(decode: Decode, data: Any) -> None:
    assert decode(json.dumps(data).encode()) == msgspec.convert(data, Move)


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"to": {"city": "x", "zip": 1}}, "unknown field `zip` - at `$.to`"),
        ({"via": [{"city": "x", "zip": 1}]}, "unknown field `zip` - at `$.via[...]`"),
        ({"known": {"a": {"city": "x", "zip": 1}}}, "unknown field `zip` - at `$.known[...]`"),
        ({"point": [1, {"city": "x", "zip": 1}]}, "unknown field `zip`"),
        ({"size": {"width": 1, "height": 1}}, "unknown field `height` - at `$.size`, which has width"),
        ({"pet": {"type": "Dog", "name": "x", "home": {"city": "x"}}}, "unknown field `home` - at `$.pet`"),
        ({"pet": {"type": "Cat", "name": "x", "home": {"city": "x", "zip": 1}}}, "at `$.pet.home`"),
        ({"zip": 1}, "unknown field `zip`"),
        (
            {"at": "2026-11-21T01:02:03"},
            "Move.at is a time without an offset: send a time like 2026-11-21T01:02:03Z",
        ),
        ({"price": "NaN"}, "Move.price is a number that is not finite"),
        ({"price": "-Infinity"}, "Move.price is a number that is not finite"),
    ],
)
def test_unknown_fields_are_refused(decode: Decode, data: Any, message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        decode(json.dumps(data).encode())
    assert message in str(raised.value)


class Left(msgspec.Struct, tag=True, array_like=True, frozen=True):
    of: Address
    size: Size


class Right(msgspec.Struct, tag=True, array_like=True, frozen=True):
    size: Size
    of: Address


class Ride(cqrs.Command):
    """A command with unions of objects, lists and other values."""

    either: str | Cat | Dog | list[Address] | None = None
    kept: int | Left | dict[str, Address] | None = None
    listed: tuple[Address, int] | None = None
    row: Left | Right | None = None
    noted: Annotated[Annotated[Cat | Dog, msgspec.Meta(title="x")] | int, msgspec.Meta(title="y")] = 0


class Paid(cqrs.Command):
    price: Decimal


class Named(cqrs.Command):
    of: Address


class Plain(cqrs.Command):
    n: int


@pytest.mark.parametrize(
    ("cls", "data", "message"),
    [
        (Ride, {"either": [{"city": "x", "zip": 1}]}, "`zip` - at `$.either[...]`"),
        (Ride, {"either": {"type": "Cat", "name": "x", "zip": 1}}, "`zip` - at `$.either`"),
        (Ride, {"kept": {"a": {"city": "x", "zip": 1}}}, "`zip` - at `$.kept[...]`"),
        (Ride, {"listed": [{"city": "x", "zip": 1}, 1]}, "`zip` - at `$.listed[...]`"),
        (Ride, {"row": ["Left", {"city": "x", "zip": 1}, {"width": 1}]}, "`zip` - at `$.row[...]`"),
        (Ride, {"row": ["Right", {"width": 1}, {"city": "x", "zip": 1}]}, "`zip` - at `$.row[...]`"),
        (Ride, {"noted": {"type": "Dog", "name": "x", "home": {"city": "x"}}}, "`home` - at `$.noted`"),
        (Ride, {"noted": {"type": "Cat", "name": "x", "zip": 1}}, "`zip` - at `$.noted`"),
        (Paid, {"price": "Infinity"}, "Paid.price is a number that is not finite"),
        (Paid, {"price": "1", "zip": 1}, "Object contains unknown field `zip`"),
        (Named, {"of": {"city": "x", "zip": 1}}, "`zip` - at `$.of`"),
        (Plain, {"n": 1, "zip": 1}, "Object contains unknown field `zip`"),
    ],
)
def test_each_kind_of_command_is_checked(cls: type[cqrs.Command], data: Any, message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        command_decoder(cls)(json.dumps(data).encode())
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "command",
    [
        Ride("x", 1),
        Ride(Dog("x"), {"a": Address("x")}),
        Ride([Address("x")], None, (Address("x"), 1)),
        Ride(noted=Cat("x", Address("y"))),
        Ride(row=Left(Address("x"), {"width": 1})),
        Ride(row=Right({"width": 1}, Address("x"))),
        Paid(Decimal("1.5")),
        Named(Address("x")),
        Plain(1),
    ],
)
def test_command_is_read_as_written(command: cqrs.Command) -> None:
    assert command_decoder(type(command))(msgspec.json.encode(command)) == command


def test_simple_commands_are_decoded_once() -> None:
    """The checks cost as much as decoding, so msgspec alone decodes a command that needs no checks."""
    assert isinstance(command_decoder(Plain), type(msgspec.json.Decoder(Plain).decode))


class Moved(cqrs.Event):
    at: datetime
    to: Address | None = None


class Place(cqrs.State):
    since: datetime | None = None


def decide(command: Move, place: Place) -> list[Moved]:
    return [] if command.at is None else [Moved(command.at)]


def evolve(place: Place, event: Moved) -> Place:
    return Place(event.at)


AGGREGATE = Aggregate.of("place", cqrs.Decider(decide, evolve, initial=Place()))


def test_event_needs_the_offset() -> None:
    with pytest.raises(ValueError, match=r"Moved.at is a time without an offset"):
        AGGREGATE.encode_checked(Moved(datetime(2026, 11, 21)))


def test_old_events_stay_readable() -> None:
    """The event was written before times were checked, or by newer code with more fields."""
    data = b'{"at": "2026-11-21T01:02:03", "to": {"city": "x", "zip": 1}}'
    old = AGGREGATE.decode_event["place.Moved"](data)
    assert old == Moved(datetime(2026, 11, 21, 1, 2, 3), Address("x"))
    AGGREGATE.step(Place(), "place.Moved", data)
