import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest
from msgspec import defstruct

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.errors import InvalidAggregate
from cqrs_cli.core.aggregate.schema import (
    changed_fields,
    class_names,
    may_be_inexact,
    require_explicit_defaults,
    require_json,
    schema_digest,
    without_prose,
)


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Size:
    width: float


@dataclass(frozen=True)
class Bin:
    aisle: int
    shelf: str = "A"


@dataclass(frozen=True, slots=True)
class Slot:
    aisle: int
    shelf: str = "A"


class Crate(msgspec.Struct, frozen=True, omit_defaults=True):
    lid: bool = False


class Colour(enum.Enum):
    RED = "red"


def event(
    annotation: Any, default: Any = msgspec.NODEFAULT, doc: str = "", name: str = "Moved"
) -> type[msgspec.Struct]:
    """Return an event class with one field."""
    return defstruct(
        name, [("field", annotation, default)], bases=(cqrs.Event,), namespace={"__doc__": doc}, frozen=True
    )


class Node(cqrs.Event):
    below: "Node | None" = None
    weight: float = 0.0


class Chain(cqrs.Event):
    below: "Chain | None" = None


@pytest.mark.parametrize(
    "annotation",
    [
        *(
            float,
            Decimal,
            Any,
            float | None,
            int | float,
            list,
            list[float],
            tuple[int, float],
            dict[str, float],
        ),
        *(frozenset[float], Point, Size, Node, dict[str, list[Point]]),
    ],
)
def test_types_that_may_be_inexact(annotation: Any) -> None:
    assert may_be_inexact([event(annotation)])


@pytest.mark.parametrize(
    "annotation",
    [int, str, bool, bytes, Colour, Chain, int | None, list[int], tuple[str, ...], dict[str, int]],
)
def test_types_that_hold_no_floats(annotation: Any) -> None:
    assert not may_be_inexact([event(annotation)])


def test_defaults_and_names_are_not_types() -> None:
    assert not may_be_inexact([event(dict[str, int], {}, name="number", doc='"number" {}')])


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (complex, "Moved.field has no form in JSON: complex"),
        (list[object], "Moved.field has no form in JSON: object"),
        (msgspec.Raw, "Moved.field has no form in JSON: Raw$"),
        (Chain | dict[str, int], "Moved.field has no form in JSON: Type unions"),
        (dict[int, str], "Moved.field is a dict with keys that are not strings"),
        (
            Annotated[dict[int, str], msgspec.Meta(min_length=1)],
            "Moved.field is a dict with keys that are not strings",
        ),
        (
            Annotated[int, msgspec.Meta(pattern="x")],
            "Moved.field has no form in JSON: Can only set `pattern`",
        ),
        (msgspec.msgpack.Ext, "Moved.field has no form in JSON: Ext$"),
        (list[dict[Colour, str]], "Moved.field is a dict with keys that are not strings"),
        ("Missing", "annotations of Moved cannot be read: name 'Missing'"),
    ],
)
def test_field_without_json_form_is_refused(annotation: Any, message: str) -> None:
    cls = event(annotation)
    with pytest.raises(InvalidAggregate, match=message) as failure:
        require_json(cls)
    assert failure.value.where is cls


@pytest.mark.parametrize("annotation", [int, Any, Node, Point, Size, Colour, dict[str, float], bytes])
def test_types_with_a_json_form_are_accepted(annotation: Any) -> None:
    require_json(event(annotation))


def test_docstring_does_not_change_the_digest() -> None:
    assert schema_digest([event(int, doc="one")]) == schema_digest([event(int, doc="other")])


def test_order_does_not_change_the_digest() -> None:
    assert schema_digest([Node, Chain]) == schema_digest([Chain, Node])


def test_type_default_and_name_count() -> None:
    variants = [event(int), event(str), event(int, 0), event(int, 1), event(int, name="Gone")]
    assert len({schema_digest([variant]) for variant in variants}) == len(variants)


def test_fields_named_like_keywords_count() -> None:
    first, second = (
        defstruct("Moved", [("description", field_type, 0)], bases=(cqrs.Event,), frozen=True)
        for field_type in (int, float)
    )
    assert schema_digest([first]) != schema_digest([second])


def test_digest_has_sixteen_digits() -> None:
    """The digest is part of a shard's identity, so another length would rebuild all shards."""
    assert len(schema_digest([event(int)])) == 16


def test_descriptions_are_removed() -> None:
    """Under `properties` a field may have the name of a JSON Schema keyword, and a default may have any content."""
    schema = {
        "title": "T",
        "description": "D",
        "examples": [1],
        "required": ["title"],
        "properties": {"title": {"default": {"title": 1}, "title": "T"}},
        "anyOf": [{"enum": ["title"], "description": "D"}, {"const": "title"}],
        "items": ({"title": "T"},),
    }
    assert without_prose(schema) == {
        "required": ["title"],
        "properties": {"title": {"default": {"title": 1}}},
        "anyOf": [{"enum": ["title"]}, {"const": "title"}],
        "items": [{}],
    }


def test_names_are_without_their_module() -> None:
    twin = defstruct("Node", [], bases=(cqrs.Event,), module="elsewhere", frozen=True)
    assert class_names([Node, twin, event(list[Point])]) == {"Node", "Moved", "Point"}


def test_fields_with_their_default_are_omitted() -> None:
    assert changed_fields(Scales()) == {}
    assert changed_fields(Scales((1.0,), {"a": 1})) == {"weights": (1.0,), "more": {"a": 1}}
    assert changed_fields(event(int)(5)) == {"field": 5}


class Weigh(cqrs.Command):
    pass


class Scales(cqrs.State):
    weights: tuple[float | Decimal | None, ...] = ()
    more: dict[str, Any] = {}  # noqa: RUF012 - msgspec gives each its own


def decide(command: Weigh, scales: Scales) -> tuple[Node, ...]:
    return ()


def evolve(scales: Scales, event: Node) -> Scales:
    return scales


scales = Aggregate.of("scales", cqrs.Decider(decide, evolve, initial=Scales()))


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity")]
)
def test_numbers_must_be_finite_everywhere(number: Any) -> None:
    for value in (Scales((1.0, number)), Scales(more={"a": [{"b": number}]})):
        with pytest.raises(ValueError, match=r"Scales\.(weights|more)\S* is a number that is not finite"):
            scales.check_values(value)


def test_large_finite_numbers_are_accepted() -> None:
    scales.check_values(Scales((1e308, Decimal("1e999"), None), {"a": 10**400}))


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (
            Bin,
            r"Bin.shelf has a default, which the JSON of Moved omits unless it is passed: write `@dataclass\(",
        ),
        (dict[str, list[Bin | None]], "Bin.shelf"),
        (
            tuple[Crate, int],
            "Crate has omit_defaults: a new default would change the meaning of stored Moved",
        ),
    ],
)
def test_objects_that_lose_fields_are_refused(annotation: Any, message: str) -> None:
    """Later code would read the omitted field with its own default."""
    with pytest.raises(InvalidAggregate, match=message) as raised:
        require_explicit_defaults(event(annotation))
    assert raised.value.where in (Bin, Crate)


@pytest.mark.parametrize("annotation", [Slot, Size, Point, Node, list[Slot]])
def test_objects_with_all_fields_are_accepted(annotation: Any) -> None:
    require_explicit_defaults(event(annotation))
