import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict, TypeVar

import msgspec
import pytest

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.fields import fields_of, spell_type, values_of
from tests.client.shopping import Colour, Place


def test_fields_are_shown_as_written() -> None:
    assert [field.as_text() for field in fields_of(Place)] == [
        "customer: Customer",
        "lines: list[Line] = []",
        "tag: frozenset[str] = []",
        "notes: dict[str, Line] = {}",
        'colour: "red" | "blue" = "red"',
        'speed: "slow" | "fast" | null = null',
        "pair: tuple[int, str] | null = null",
        "extra: Any = null",
    ]


def test_nested_fields_have_a_path() -> None:
    customer, lines, _, notes, *_ = fields_of(Place)
    assert (customer.path, lines.path, notes.path) == ("", "[]", "[KEY]")
    assert [field.name for field in customer.fields] == ["name", "zip", "phones"]
    quantity = lines.fields[1]
    assert (quantity.type, quantity.description, quantity.default) == ("int ≥ 1", "How many of it.", "1")


def test_recursive_type_ends() -> None:
    _, lines, *_ = fields_of(Place)
    assert lines.fields[2].fields == ()


class Tree(TypedDict):
    name: str
    below: "list[Tree]"


@dataclass(frozen=True, slots=True)
class Leaf:
    at: int = 0


class Kinds(cqrs.Command):
    """A field for each way to contain an object, and fields without objects."""

    tree: Tree
    noted: Annotated[Leaf, msgspec.Meta(description="One"), msgspec.Meta(description="leaf.")] = Leaf()
    either: int | dict[str, list[Leaf]] | None = None
    listed: Annotated[list[Leaf], msgspec.Meta(min_length=1, max_length=3)] = cqrs.field(
        default_factory=lambda: [Leaf()]
    )
    optional: list[Annotated[Leaf, "note"] | None] = []  # noqa: RUF012 - each message gets its own
    many: tuple[int, ...] = ()
    old: Optional[Leaf] = None  # noqa: UP045 - the older spelling is read too
    even: Annotated[int, msgspec.Meta(gt=0, lt=9, multiple_of=2)] = 2
    limited: Annotated[int, msgspec.Meta(le=9)] = 2
    code: Annotated[str, msgspec.Meta(pattern="^x")] = "x"
    fixed: Annotated[Literal["x", 1] | None, "note"] = None
    plain: dict[str, int] = {}  # noqa: RUF012 - each message gets its own
    anything: "Any" = None


def test_each_type_is_shown() -> None:
    assert [field.as_text() for field in fields_of(Kinds)] == [
        "tree: Tree",
        'noted: Leaf = {"at":0}',
        "either: int | dict[str, list[Leaf]] | null = null",
        'listed: list[Leaf] at least 1 long at most 3 long = [{"at":0}]',
        "optional: list[Leaf | null] = []",
        "many: tuple[int, ...] = []",
        "old: Leaf | null = null",
        "even: int > 0 < 9 a multiple of 2 = 2",
        "limited: int ≤ 9 = 2",
        'code: str like ^x = "x"',
        'fixed: "x" | 1 | null = null',
        "plain: dict[str, int] = {}",
        "anything: Any = null",
    ]


def test_objects_are_found_in_each_type() -> None:
    objects = {field.name: (field.path, [inner.name for inner in field.fields]) for field in fields_of(Kinds)}
    assert objects.pop("tree") == ("", ["below", "name"])
    assert {name: members for name, members in objects.items() if members != ("", [])} == {
        "noted": ("", ["at"]),
        "either": ("[KEY][]", ["at"]),
        "listed": ("[]", ["at"]),
        "optional": ("[]", ["at"]),
        "old": ("", ["at"]),
    }


def test_descriptions_are_joined() -> None:
    assert [field.description for field in fields_of(Kinds) if field.description] == ["One leaf."]


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        (Literal["a", 1], ['"a"', "1"]),
        (Annotated[Literal["a"], "note"] | None, ['"a"']),
        (Colour, ['"red"', '"blue"']),
        (int, []),
        (list[Colour], []),
    ],
)
def test_values_of_closed_sets(annotation: Any, values: list[str]) -> None:
    assert values_of(annotation) == values


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (typing.List, "List"),  # noqa: UP006 - the older spelling is read too
        (typing.Never, "Never"),
        (TypeVar("T"), "~T"),
        (None, "null"),
        (..., "..."),
    ],
)
def test_other_annotations_are_shown(annotation: Any, text: str) -> None:
    assert spell_type(annotation) == text
