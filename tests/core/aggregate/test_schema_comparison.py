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


def compared(old: Any, new: Any) -> list[tuple[str, ...]]:
    before, today = DEFINITIONS
    return [tuple(one) for one in Comparison({"$defs": before}, {"$defs": today}).differences(old, new)]


def a(**fields: Any) -> dict[str, Any]:
    """Return an object schema with these fields. Fields without a default are required."""
    required = [name for name, kind in fields.items() if "default" not in kind]
    return {"type": "object", "properties": fields} | ({"required": required} if required else {})


def one_of(*kinds: Any) -> dict[str, Any]:
    return {"anyOf": list(kinds)}


def listed(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


def table(kind: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": kind}


def row(*kinds: Any) -> dict[str, Any]:
    return {"type": "array", "prefixItems": list(kinds), "items": False}


@pytest.mark.parametrize(
    ("old", "new", "found"),
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
def test_kinds_of_values(old: Any, new: Any, found: Any) -> None:
    assert compared(old, new) == (found if isinstance(found, list) else [found] if found else [])


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"minimum": 1}, {}, ("wider", "had {'minimum': 1}, has none")),
        ({}, {"minimum": 1}, ("type", "had no limits, has {'minimum': 1}")),
        ({"minimum": 1}, {"minimum": 2}, ("type", "had {'minimum': 1}, has {'minimum': 2}")),
    ],
)
def test_limits_of_values(old: Any, new: Any, found: Any) -> None:
    assert compared(INT | old, INT | new) == [("", *found)]


def test_default_is_not_a_limit() -> None:
    assert compared(INT | {"default": 1}, INT | {"default": 2}) == []
    assert compared(TIME, TIME) == []
    assert compared(TIME | {"minLength": 20}, TIME) == [("", "wider", "had {'minLength': 20}, has none")]


@pytest.mark.parametrize(
    ("wrapped", "path"),
    [
        (lambda kind: a(n=kind), "n"),
        (listed, "[]"),
        (table, "[KEY]"),
        (lambda kind: row(INT, kind), "[1]"),
        (lambda kind: a(n=listed(a(m=table(kind)))), "n[].m[KEY]"),
        (lambda kind: one_of(listed(kind), NULL), "[]"),
        (lambda kind: row(listed(kind)), "[0][]"),
    ],
)
def test_place_of_a_difference(wrapped: Any, path: str) -> None:
    assert compared(wrapped(INT), wrapped(TEXT)) == [(path, "type", "was integer, is string")]
    assert compared(wrapped(INT), wrapped(INT)) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (a(n=INT), a(n=INT, m=INT), [("m", "required", "is new and has no default")]),
        (a(n=INT), a(n=INT, m=INT | {"default": 1}), [("m", "wider", "is new")]),
        (a(n=INT), a(), [("n", "gone", "is gone")]),
        (a(), a(n=INT | {"default": 1}), [("n", "wider", "is new")]),
        (a(n=INT), {"type": "object"}, [("n", "gone", "is gone")]),
        ({"type": "object"}, a(n=INT), [("n", "required", "is new and has no default")]),
        (a(n=INT), a(n=INT | {"default": 1}), [("n", "wider", "has a default now")]),
        (a(n=INT | {"default": 1}), a(n=INT), [("n", "required", "has lost its default")]),
        (
            a(n=INT | {"default": 1}),
            a(n=INT | {"default": 2}),
            [("n", "wider", "has the default 2, it was 1")],
        ),
        (
            a(n=INT),
            a(m=INT),
            [("n", "gone", "is gone (renamed to m?)"), ("m", "required", "is new and has no default")],
        ),
        (
            a(i=a(n=INT | {"default": 1})),
            a(i=a(n=INT | {"default": 2}, m=INT | {"default": 1})),
            [("i.m", "wider", "is new"), ("i.n", "wider", "has the default 2, it was 1")],
        ),
        (a(i=a(n=INT, m=INT)), a(i=a(m=INT)), [("i.n", "gone", "is gone")]),
    ],
)
def test_fields_of_objects(old: Any, new: Any, found: list[Any]) -> None:
    assert compared(old, new) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (one_of(INT, NULL), INT, [("", "type", "can no longer be null")]),
        (INT, one_of(INT, TIME), [("", "wider", "may now be string (date-time)")]),
        (one_of(INT, NULL), one_of(FLOAT, NULL), [("", "wider", "was integer, is number")]),
        (one_of(FLOAT, NULL), one_of(NULL, FLOAT), []),
        (
            one_of(NULL, TEXT),
            one_of(INT, TEXT),
            [("", "type", "can no longer be null"), ("", "wider", "may now be integer")],
        ),
        (
            one_of(TIME, NULL),
            one_of(TEXT, NULL),
            [("", "type", "can no longer be string (date-time)"), ("", "wider", "may now be string")],
        ),
        (one_of(a(n=INT), a(m=INT)), one_of(a(m=INT), a(n=INT)), []),
        (one_of({"$ref": "#/$defs/B"}, NULL), NULL, [("", "type", "can no longer be 'b'")]),
        (NULL, one_of({"$ref": "#/$defs/C"}, NULL), [("", "wider", "may now be 'c' | 'd'")]),
        (
            listed(one_of(NULL, INT)),
            listed(INT | {"minimum": 1}),
            [
                ("[]", "type", "can no longer be null"),
                ("[]", "type", "had no limits, has {'minimum': 1}"),
            ],
        ),
        (one_of(INT, TEXT), one_of(one_of(INT, TEXT), NULL), [("", "wider", "may now be null")]),
        (one_of(one_of(INT, TEXT), NULL), one_of(INT, NULL), [("", "type", "can no longer be string")]),
    ],
)
def test_alternatives_of_unions(old: Any, new: Any, found: list[Any]) -> None:
    assert compared(old, new) == found


def test_number_of_items_counts() -> None:
    assert compared(row(INT), row(INT, TEXT)) == [("", "type", "had 1 items, has 2")]
    assert compared(row(INT, TEXT), row(TEXT)) == [
        ("", "type", "had 2 items, has 1"),
        ("[0]", "type", "was integer, is string"),
    ]
    assert compared(listed(INT), row(INT)) == [("", "type", "had 0 items, has 1")]


def test_type_within_itself_ends() -> None:
    whole = {"$ref": "#/$defs/A"}
    assert compared(whole, whole) == [("n", "type", "was integer, is string")]
    assert compared(a(one=whole), a(one=whole, two=TEXT)) == [
        ("two", "required", "is new and has no default"),
        ("one.n", "type", "was integer, is string"),
    ]


def test_every_use_of_a_type_counts() -> None:
    whole = {"$ref": "#/$defs/A"}
    assert compared(a(one=whole, two=whole), a(one=INT, two=INT)) == [
        ("one", "type", "was object, is integer"),
        ("two", "type", "was object, is integer"),
    ]
    assert compared(a(one=INT, two=INT), a(one=whole, two=whole)) == [
        ("one", "type", "was integer, is object"),
        ("two", "type", "was integer, is object"),
    ]


def test_named_type_is_like_its_own() -> None:
    named = {"$ref": "#/$defs/Same"}
    assert compared(named, {"enum": ["b"]}) == compared({"enum": ["b"]}, named) == []
    assert compared({"$ref": "#/$defs/A"}, INT) == [("", "type", "was object, is integer")]


def test_documents_without_named_types() -> None:
    assert list(Comparison({}, {}).differences(INT, INT)) == []


def amount(*names: str) -> Any:
    return namedtuple("Amount", names)


def line(*names: str) -> Any:
    return msgspec.defstruct("Line", [(name, Any) for name in names], array_like=True)


@pytest.mark.parametrize("row", [amount, line])
def test_names_of_items_are_compared(row: Callable[..., Any]) -> None:
    """The stored row `[100, 19]` would be read with other names."""
    (old,), before = schema_components([row("net", "tax")])
    (new,), today = schema_components([row("tax", "net")])
    (found,) = Comparison({"$defs": before}, {"$defs": today}).differences(old, new)
    assert (found.kind, found.description) == ("type", "had the items net, tax, has tax, net")
    for definition in before.values():  # a contract of an earlier release
        del definition[ITEM_NAMES]
    assert list(Comparison({"$defs": before}, {"$defs": today}).differences(old, new)) == []


def test_names_of_items_change_the_digest() -> None:
    assert schema_digest([line("net", "tax")]) != schema_digest([line("tax", "net")])
