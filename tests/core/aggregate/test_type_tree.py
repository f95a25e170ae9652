"""A described type is a tree that contains the author's annotation and its JSON form."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, NewType, TypedDict, TypeVar

import msgspec
import pytest
from msgspec import UnsetType

from cqrs_cli.core.aggregate.fields import spell_type
from cqrs_cli.core.aggregate.json_schema import message_schema
from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of

T = TypeVar("T")
Sku = NewType("Sku", str)


@dataclass(frozen=True, slots=True)
class Leaf:
    at: int


class Tree(TypedDict):
    below: "list[Tree]"
    leaf: Leaf


class Box(msgspec.Struct, Generic[T], frozen=True):
    held: T
    more: list[T | None] = []


class Row(msgspec.Struct, array_like=True, frozen=True):
    leaf: Leaf


def child_types(node: TypeNode) -> list[str]:
    return [spell_type(child.annotation) for child in node.child_nodes()]


@pytest.mark.parametrize(
    ("annotation", "form", "children"),
    [
        (list[Leaf], "list", ["Leaf"]),
        (list, "list", ["Any"]),
        (frozenset[str], "set", ["str"]),
        (tuple[int, ...], "list", ["int"]),
        (tuple[int, str], "tuple", ["int", "str"]),
        (dict[str, Leaf], "dict", ["str", "Leaf"]),
        (Leaf | None, "union", ["Leaf", "null"]),
        (Annotated[int | UnsetType | None, msgspec.Meta(title="x")], "union", ["int", "null"]),
        (list[int] | UnsetType, "list", ["int"]),
        (Sku, "value", []),
        (Tree, "object", ["list[Tree]", "Leaf"]),
        (Box[int], "object", ["int", "list[int | null]"]),
    ],
)
def test_each_form_has_its_parts(annotation: Any, form: str, children: list[str]) -> None:
    node = tree_of(annotation)
    assert (node.form, child_types(node)) == (form, children)


def test_recursive_type_ends() -> None:
    msgspec_types = [node.msgspec_type for node in tree_of(Tree).all_nodes()]
    assert len({id(msgspec_type) for msgspec_type in msgspec_types}) == len(msgspec_types) == 4


def test_rows_are_lists_in_json() -> None:
    assert [tree_of(annotation).is_list for annotation in (Row, list[int], Leaf, dict[str, int])] == [
        True,
        True,
        False,
        False,
    ]


class When(msgspec.Struct):
    at: Annotated[datetime, msgspec.Meta(description="Then.")] | None = None
    since: datetime | None = None


def test_described_members_keep_their_form() -> None:
    """Committed contracts have these times without a format. Adding the format would break each of these contracts."""
    fields = message_schema(When)["$defs"]["When"]["properties"]
    assert [fields[name]["anyOf"][0].get("format") for name in ("at", "since")] == [None, "date-time"]
