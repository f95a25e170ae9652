"""The messages of an aggregate as JSON Schema, with the descriptions of their authors.

Times have the format date-time.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from types import FunctionType
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.json_schema import (
    aggregate_schema,
    components,
    message_classes,
    message_schema,
    module_docstring,
)
from cqrs_cli.core.personal.personal_fields import Personal
from tests.core.personal.customer import CUSTOMER

TIME = {"type": "string", "format": "date-time"}
NULL = {"type": "null"}


@dataclass(frozen=True, slots=True)
class Inner:
    at: datetime


class Point(NamedTuple):
    at: datetime


class Other(msgspec.Struct, tag=True, frozen=True):
    at: str


class Late(msgspec.Struct, tag=True, frozen=True):
    at: datetime


class Row(msgspec.Struct, tag=True, array_like=True, frozen=True):
    name: str
    at: datetime


class Deep(msgspec.Struct, frozen=True):
    at: datetime


class Listed(msgspec.Struct, frozen=True):
    at: datetime


class Timed(cqrs.Event):
    plain: datetime
    optional: datetime | None
    many: list[datetime]
    table: dict[str, list[datetime | None]]
    pair: tuple[int, datetime]
    inner: Inner | None
    text: str
    either: datetime | list[datetime] | dict[str, datetime] | None
    point: Point
    row: Row
    maybe: tuple[int, datetime] | None
    deep: Annotated[Deep, msgspec.Meta(description="It.")]
    listed: Annotated[list[Listed], msgspec.Meta(description="Them.")]
    mixed: tuple[int, int] | Deep
    record: Other | Late | int
    numbers: list[int] | str | None
    above: Annotated[datetime, msgspec.Meta(description="When.")]
    again: "Timed | None" = None


def test_times_have_a_format() -> None:
    """The format is set at every depth. msgspec omits it, because it also accepts a time without an offset."""
    for template in ("#/$defs/{name}", "#/components/schemas/my.timed.{name}"):
        (reference,), definitions = components([Timed], template)
        decoded: Any = msgspec.json.decode(msgspec.json.encode(definitions))
        fields = decoded["Timed"]["properties"]
        assert reference == {"$ref": template.format(name="Timed")}
        assert fields["maybe"]["anyOf"][0]["prefixItems"] == [{"type": "integer"}, TIME]
        assert decoded["Deep"]["properties"]["at"] == decoded["Listed"]["properties"]["at"] == TIME
        assert fields["mixed"]["anyOf"][0]["prefixItems"] == [{"type": "integer"}] * 2
        assert fields["plain"] == TIME and fields["text"] == {"type": "string"}
        assert fields["optional"]["anyOf"] == [TIME, NULL]
        assert fields["many"]["items"] == TIME
        assert fields["table"]["additionalProperties"]["items"]["anyOf"] == [TIME, NULL]
        assert fields["pair"]["prefixItems"][1] == TIME
        assert decoded["Inner"]["properties"]["at"] == TIME
        expected_either = [
            TIME,
            {"type": "array", "items": TIME},
            {"type": "object", "additionalProperties": TIME},
            NULL,
        ]
        assert fields["either"]["anyOf"] == expected_either
        assert decoded["Point"]["prefixItems"] == [TIME]
        assert decoded["Row"]["prefixItems"][1:] == [{"type": "string"}, TIME]
        assert decoded["Late"]["properties"]["at"] == TIME
        assert decoded["Other"]["properties"]["at"] == {"type": "string"}
        assert fields["numbers"]["anyOf"] == [
            {"type": "array", "items": {"type": "integer"}},
            {"type": "string"},
            NULL,
        ]
        assert fields["above"] == TIME | {"description": "When."}


class Start(cqrs.Command):
    """Begin."""


class Clock(cqrs.State):
    at: datetime | None = None


def decide(command: Start, clock: Clock) -> list[Timed]:
    return []


def evolve(clock: Clock, event: Timed) -> Clock:
    return clock


AGGREGATE = Aggregate.of("clock", cqrs.Decider(decide, evolve, initial=Clock()))


def test_schema_has_every_message() -> None:
    upcasters: Any = {"Ticked": lambda old: None, "Rang": lambda old: None}
    aggregate = Aggregate.of("clock", cqrs.Decider(decide, evolve, initial=Clock(), upcasters=upcasters))
    schema = aggregate_schema(aggregate)
    assert list(schema["$defs"]) and {key: value for key, value in schema.items() if key != "$defs"} == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "clock",
        "description": module_docstring(aggregate),
        "commands": {"clock.Start": {"$ref": "#/$defs/Start"}},
        "events": {"clock.Timed": {"$ref": "#/$defs/Timed"}},
        "state": {"$ref": "#/$defs/Clock"},
        "retired": ["clock.Rang", "clock.Ticked"],
    }
    assert schema["$defs"]["Start"]["description"] == "Begin."


def test_description_is_the_module_docstring() -> None:
    first, *_, last = module_docstring(AGGREGATE).splitlines()
    assert (
        first.startswith("The messages of an aggregate as JSON Schema")
        and last == "Times have the format date-time."
    )


@pytest.mark.parametrize("module", ["no_such_module", "tests.core.aggregate"])
def test_aggregate_without_a_docstring(module: str) -> None:
    other_decide = FunctionType(decide.__code__, {"__name__": module})
    decider = replace(AGGREGATE.decider, decide=other_decide)
    assert module_docstring(replace(AGGREGATE, decider=decider)) == ""


def test_schema_of_one_message() -> None:
    assert message_schema(Start) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/Start",
        "$defs": {
            "Start": {
                "title": "Start",
                "description": "Begin.",
                "type": "object",
                "properties": {},
                "required": [],
            }
            | {"additionalProperties": False}
        },
    }


def test_messages_are_known_by_name() -> None:
    assert message_classes(AGGREGATE) == {"Start": Start, "Timed": Timed, "Clock": Clock}


def test_classes_of_one_name_are_distinguished() -> None:
    """Modules distinguish classes with the same name. Each of the classes has times with a format."""
    fields: Any = [("at", datetime)]
    first, second = (msgspec.defstruct("Twin", fields, module=module) for module in ("a.b", "c.d"))
    _, definitions = components([first, second], "#/$defs/{name}")
    assert {name: twin["properties"]["at"] for name, twin in definitions.items()} == {
        "a.b.Twin": TIME,
        "c.d.Twin": TIME,
    }


class Place(msgspec.Struct, frozen=True):
    city: str


class Size(msgspec.Struct, frozen=True):
    width: int


class Stop(msgspec.Struct, frozen=True):
    place: Place | None
    sizes: dict[str, Size]


class Travel(cqrs.Command):
    stops: list[Stop]


class Arrived(cqrs.Event):
    size: Size


def test_objects_of_commands_are_closed() -> None:
    """Owners refuse unknown fields in commands. Events stay open, because older code reads newer events."""
    for template in ("#/$defs/{name}", "#/components/schemas/travel.{name}"):
        _, command_schemas = components([Travel], template)
        _, all_schemas = components([Travel, Arrived], template)
        assert {
            name: schema["additionalProperties"] for name, schema in command_schemas.items()
        } == dict.fromkeys(("Travel", "Stop", "Place", "Size"), False)
        assert {
            name for name, schema in all_schemas.items() if schema.get("additionalProperties") is False
        } == {
            "Travel",
            "Stop",
            "Place",
        }


def test_personal_fields_are_marked() -> None:
    fields = aggregate_schema(CUSTOMER)["$defs"]["Registered"]["properties"]
    assert fields["mail"] == {"type": "string", "pattern": "@", "x-personal": {"erased": "x@invalid"}}
    assert fields["name"] == {"type": "string", "x-personal": {"erased": ""}}
    assert fields["plan"] == {"type": "string"}


def test_personal_objects_are_marked() -> None:
    """The annotation is on the field, not on the class to which it refers."""

    class Sent(cqrs.Event):
        to: Personal[Inner | None] = None

    assert message_schema(Sent)["$defs"]["Sent"]["properties"]["to"]["x-personal"] == {"erased": None}
    assert "x-personal" not in message_schema(Sent)["$defs"]["Inner"]
