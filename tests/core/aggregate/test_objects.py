"""Messages with a field that may be a JSON object: only such a field can look like an encrypted value."""

import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from msgspec import Struct, defstruct

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.schema import may_hold_objects
from cqrs_cli.core.personal.personal_fields import personal


@dataclass(frozen=True, slots=True)
class Bin:
    aisle: int


class Place(Struct):
    bin: Bin


class Colour(enum.Enum):
    RED = "red"


def event_class_with(annotation: Any) -> type[Struct]:
    return defstruct("Noted", [("what", annotation), ("count", int)], bases=(cqrs.Event,), frozen=True)


@pytest.mark.parametrize(
    "annotation",
    [Any, Bin, Place, dict, dict[str, int], dict[str, int] | None, Annotated[Any, personal]],
)
def test_types_that_may_be_objects(annotation: Any) -> None:
    assert may_hold_objects(event_class_with(annotation))


@pytest.mark.parametrize(
    "annotation",
    [
        int,
        str | None,
        bytes,
        Colour,
        Decimal,
        list[Bin],
        tuple[str, dict[str, int]],
        Annotated[str, personal],
    ],
)
def test_types_that_are_never_objects(annotation: Any) -> None:
    """A list of objects is not an object."""
    assert not may_hold_objects(event_class_with(annotation))
