from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.json_schema import components

TIME = {"type": "string", "format": "date-time"}
NULL = {"type": "null"}


@dataclass(frozen=True)
class Inner:
    at: datetime


class Timed(cqrs.Event):
    plain: datetime
    optional: datetime | None
    many: list[datetime]
    table: dict[str, list[datetime | None]]
    pair: tuple[int, datetime]
    inner: Inner | None
    text: str
    again: "Timed | None" = None


def test_times_are_said_to_be_times() -> None:
    """At every depth; msgspec leaves their format out, as it would take a time without its offset."""
    for template in ("#/$defs/{name}", "#/components/schemas/timed.{name}"):
        _, definitions = components([Timed], template)
        plain: Any = msgspec.json.decode(msgspec.json.encode(definitions))
        fields = plain["Timed"]["properties"]
        assert fields["plain"] == TIME and fields["text"] == {"type": "string"}
        assert fields["optional"]["anyOf"] == [TIME, NULL]
        assert fields["many"]["items"] == TIME
        assert fields["table"]["additionalProperties"]["items"]["anyOf"] == [TIME, NULL]
        assert fields["pair"]["prefixItems"][1] == TIME
        assert plain["Inner"]["properties"]["at"] == TIME
