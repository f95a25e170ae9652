"""Two schemas of a message are compared field by field, at every depth."""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cqrs_cli.core.aggregate.schema import ITEM_NAMES, schema_components, schema_digest
from cqrs_cli.core.aggregate.schema_comparison import Comparison

INT, TEXT, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
FLOAT = {"type": "number"}
TIME = TEXT | {"format": "date-time"}
DEFINITIONS: tuple[dict[str, Any], dict[str, Any]] = (
    {
        "A": {"type": "object", "properties": {"n": INT, "a": {"$ref": "#/$defs/A"}}},
        "B": {"enum": ["b"]},
        "Same": {"enum": ["b"]},
    },
    {
        "A": {"type": "object", "properties": {"n": TEXT, "a": {"$ref": "#/$defs/A"}}},
        "C": {"enum": ["c", "d"]},
        "Same": {"enum": ["b"]},
    },
)


def differences(old: Any, new: Any) -> list[tuple[str, ...]]:
    old_definitions, new_definitions = DEFINITIONS
    return [
        tuple(difference)
        for difference in Comparison({"$defs": old_definitions}, {"$defs": new_definitions}).differences(
            old, new
        )
    ]


def object_with(**fields: Any) -> dict[str, Any]:
    """Return an object schema with these fields. Fields without a default are required."""
    required = [name for name, schema in fields.items() if "default" not in schema]
    return {"type": "object", "properties": fields} | ({"required": required} if required else {})


def union_of(*schemas: Any) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def list_of(schema: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def table_of(schema: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema}


def tuple_of(*schemas: Any) -> dict[str, Any]:
    required = sum("default" not in schema for schema in schemas)
    return {"type": "array", "prefixItems": list(schemas), "items": False, "minItems": required}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (INT, TEXT, ("", "type", "was integer, is string")),
        (INT, FLOAT, ("", "wider", "was integer, is number")),
        (FLOAT, INT, ("", "type", "was number, is integer")),
        (TIME, TEXT, ("", "type", "was string (date-time), is string")),
        ({}, INT, ("", "type", "was anything, is integer")),
        (INT, {"format": "odd"}, ("", "type", "was integer, is anything (odd)")),
        ({"enum": ["x"]}, INT, ("", "type", "was 'x', is integer")),
        ({"enum": ["x"]}, {}, ("", "type", "was 'x', is anything")),
        (INT, {"const": 1}, ("", "type", "was integer, is 1")),
        (INT | {"const": 1}, INT, ()),
        ({"const": 1}, {"const": 2}, [("", "value", "can no longer be 1"), ("", "wider", "may now be 2")]),
        ({"enum": [1]}, {"enum": [1, 2]}, ("", "wider", "may now be 2")),
    ],
)
def test_kinds_of_values(old: Any, new: Any, expected: Any) -> None:
    assert differences(old, new) == (
        expected if isinstance(expected, list) else [expected] if expected else []
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"minimum": 1}, {}, ("wider", "had {'minimum': 1}, has none")),
        ({}, {"minimum": 1}, ("type", "had no limits, has {'minimum': 1}")),
        ({"minimum": 1}, {"minimum": 2}, ("type", "had {'minimum': 1}, has {'minimum': 2}")),
    ],
)
def test_limits_of_values(old: Any, new: Any, expected: Any) -> None:
    assert differences(INT | old, INT | new) == [("", *expected)]


def test_default_is_not_a_limit() -> None:
    assert differences(INT | {"default": 1}, INT | {"default": 2}) == []
    assert differences(TIME, TIME) == []
    assert differences(TIME | {"minLength": 20}, TIME) == [("", "wider", "had {'minLength': 20}, has none")]


@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda schema: object_with(n=schema), "n"),
        (list_of, "[]"),
        (table_of, "[KEY]"),
        (lambda schema: tuple_of(INT, schema), "[1]"),
        (lambda schema: object_with(n=list_of(object_with(m=table_of(schema)))), "n[].m[KEY]"),
        (lambda schema: union_of(list_of(schema), NULL), "[]"),
        (lambda schema: tuple_of(list_of(schema)), "[0][]"),
    ],
)
def test_path_of_a_difference(wrap: Any, path: str) -> None:
    assert differences(wrap(INT), wrap(TEXT)) == [(path, "type", "was integer, is string")]
    assert differences(wrap(INT), wrap(INT)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (object_with(n=INT), object_with(n=INT, m=INT), [("m", "required", "is new and has no default")]),
        (object_with(n=INT), object_with(n=INT, m=INT | {"default": 1}), [("m", "wider", "is new")]),
        (object_with(n=INT), object_with(), [("n", "gone", "is gone")]),
        (object_with(), object_with(n=INT | {"default": 1}), [("n", "wider", "is new")]),
        (object_with(n=INT), {"type": "object"}, [("n", "gone", "is gone")]),
        ({"type": "object"}, object_with(n=INT), [("n", "required", "is new and has no default")]),
        (object_with(n=INT), object_with(n=INT | {"default": 1}), [("n", "wider", "has a default now")]),
        (
            object_with(n=INT | {"default": 1}),
            object_with(n=INT),
            [("n", "required", "has lost its default")],
        ),
        (
            object_with(n=INT | {"default": 1}),
            object_with(n=INT | {"default": 2}),
            [("n", "wider", "has the default 2, it was 1")],
        ),
        (
            object_with(n=INT),
            object_with(m=INT),
            [("n", "gone", "is gone (renamed to m?)"), ("m", "required", "is new and has no default")],
        ),
        (
            object_with(i=object_with(n=INT | {"default": 1})),
            object_with(i=object_with(n=INT | {"default": 2}, m=INT | {"default": 1})),
            [("i.m", "wider", "is new"), ("i.n", "wider", "has the default 2, it was 1")],
        ),
        (
            object_with(i=object_with(n=INT, m=INT)),
            object_with(i=object_with(m=INT)),
            [("i.n", "gone", "is gone")],
        ),
    ],
)
def test_fields_of_objects(old: Any, new: Any, expected: list[Any]) -> None:
    assert differences(old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (union_of(INT, NULL), INT, [("", "type", "can no longer be null")]),
        (INT, union_of(INT, TIME), [("", "wider", "may now be string (date-time)")]),
        (union_of(INT, NULL), union_of(FLOAT, NULL), [("", "wider", "was integer, is number")]),
        (union_of(FLOAT, NULL), union_of(NULL, FLOAT), []),
        (
            union_of(NULL, TEXT),
            union_of(INT, TEXT),
            [("", "type", "can no longer be null"), ("", "wider", "may now be integer")],
        ),
        (
            union_of(TIME, NULL),
            union_of(TEXT, NULL),
            [("", "type", "can no longer be string (date-time)"), ("", "wider", "may now be string")],
        ),
        (
            union_of(object_with(n=INT), object_with(m=INT)),
            union_of(object_with(m=INT), object_with(n=INT)),
            [],
        ),
        (union_of({"$ref": "#/$defs/B"}, NULL), NULL, [("", "type", "can no longer be 'b'")]),
        (NULL, union_of({"$ref": "#/$defs/C"}, NULL), [("", "wider", "may now be 'c' | 'd'")]),
        (
            list_of(union_of(NULL, INT)),
            list_of(INT | {"minimum": 1}),
            [
                ("[]", "type", "can no longer be null"),
                ("[]", "type", "had no limits, has {'minimum': 1}"),
            ],
        ),
        (union_of(INT, TEXT), union_of(union_of(INT, TEXT), NULL), [("", "wider", "may now be null")]),
        (union_of(union_of(INT, TEXT), NULL), union_of(INT, NULL), [("", "type", "can no longer be string")]),
    ],
)
def test_alternatives_of_unions(old: Any, new: Any, expected: list[Any]) -> None:
    assert differences(old, new) == expected


def test_number_of_items_counts() -> None:
    assert differences(tuple_of(INT), tuple_of(INT, TEXT)) == [("", "type", "had 1 items, has 2")]
    assert differences(tuple_of(INT, TEXT), tuple_of(TEXT)) == [
        ("", "type", "had 2 items, has 1"),
        ("[0]", "type", "was integer, is string"),
    ]
    assert differences(list_of(INT), tuple_of(INT)) == [("", "type", "had 0 items, has 1")]


def test_items_with_defaults_may_be_added() -> None:
    optional = INT | {"default": 0}
    assert differences(tuple_of(INT), tuple_of(INT, optional)) == [("", "wider", "had 1 items, has 2")]
    assert differences(tuple_of(INT, INT), tuple_of(INT, optional)) == [
        ("", "wider", "needs 1 items, needed 2")
    ]
    assert differences(tuple_of(INT, optional), tuple_of(INT, INT)) == [
        ("", "required", "needs 2 items, needed 1")
    ]


def test_recursive_type_ends() -> None:
    recursive = {"$ref": "#/$defs/A"}
    assert differences(recursive, recursive) == [("n", "type", "was integer, is string")]
    assert differences(object_with(one=recursive), object_with(one=recursive, two=TEXT)) == [
        ("two", "required", "is new and has no default"),
        ("one.n", "type", "was integer, is string"),
    ]


def test_every_use_of_a_type_counts() -> None:
    recursive = {"$ref": "#/$defs/A"}
    assert differences(object_with(one=recursive, two=recursive), object_with(one=INT, two=INT)) == [
        ("one", "type", "was object, is integer"),
        ("two", "type", "was object, is integer"),
    ]
    assert differences(object_with(one=INT, two=INT), object_with(one=recursive, two=recursive)) == [
        ("one", "type", "was integer, is object"),
        ("two", "type", "was integer, is object"),
    ]


def test_reference_equals_its_definition() -> None:
    reference = {"$ref": "#/$defs/Same"}
    assert differences(reference, {"enum": ["b"]}) == differences({"enum": ["b"]}, reference) == []
    assert differences({"$ref": "#/$defs/A"}, INT) == [("", "type", "was object, is integer")]


def test_documents_without_named_types() -> None:
    assert list(Comparison({}, {}).differences(INT, INT)) == []


def amount_class(*names: str) -> Any:
    return namedtuple("Amount", names)


def line_class(*names: str) -> Any:
    return msgspec.defstruct("Line", [(name, Any) for name in names], array_like=True)


@pytest.mark.parametrize("make_class", [amount_class, line_class])
def test_names_of_items_are_compared(make_class: Callable[..., Any]) -> None:
    """The stored row `[100, 19]` would be read with other names."""
    (old,), old_definitions = schema_components([make_class("net", "tax")])
    (new,), new_definitions = schema_components([make_class("tax", "net")])
    (difference,) = Comparison({"$defs": old_definitions}, {"$defs": new_definitions}).differences(old, new)
    assert (difference.kind, difference.description) == ("type", "had the items net, tax, has tax, net")
    for definition in old_definitions.values():  # a contract of an earlier release
        del definition[ITEM_NAMES]
    assert (
        list(Comparison({"$defs": old_definitions}, {"$defs": new_definitions}).differences(old, new)) == []
    )


@pytest.mark.parametrize(
    ("names", "kind"), [(["net", "tax", "tip"], "wider"), (["tax", "net", "tip"], "type")]
)
def test_added_item_keeps_the_names(names: list[str], kind: str) -> None:
    old_class, new_class = amount_class("net", "tax"), namedtuple("Amount", names, defaults=[0])
    (old,), old_definitions = schema_components([old_class])
    (new,), new_definitions = schema_components([new_class])
    (difference,) = Comparison({"$defs": old_definitions}, {"$defs": new_definitions}).differences(old, new)
    assert difference.kind == kind


def test_names_of_items_change_the_digest() -> None:
    assert schema_digest([line_class("net", "tax")]) != schema_digest([line_class("tax", "net")])
