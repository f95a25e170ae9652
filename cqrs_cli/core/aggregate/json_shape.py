"""The possible JSON values of a schema, merged into one shape. Avro and Protobuf are written from shapes."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple, Optional

from cqrs_cli.core.aggregate.json_schema import alternatives
from cqrs_cli.core.aggregate.schema import definition_name

#: Definitions by name, as in `$defs`.
Definitions = Mapping[str, Any]


class JsonShape(NamedTuple):
    """The values that a schema permits; every part is a possibility, such as `int | None | list[str]`.

    A literal or an enum has the types of its values. An array, also a tuple, has one shape for all its items.
    """

    anything: bool = False
    nullable: bool = False
    scalars: tuple[str, ...] = ()  # of "boolean", "integer", "number", "string"; sorted
    text_format: str = ""  # the format of all strings: "date-time", "uuid", "base64"
    items: Optional["JsonShape"] = None  # the shape of an array's items
    values: Optional["JsonShape"] = None  # the shape of the values of an object with arbitrary keys
    objects: tuple[str, ...] = ()  # the names of definitions with properties

    def union(self, other: "JsonShape") -> "JsonShape":
        """Return the shape of the values that either shape permits."""
        if self.anything or other.anything:
            return JsonShape(anything=True)
        formats = {shape.text_format for shape in (self, other) if "string" in shape.scalars}
        return JsonShape(
            False,
            self.nullable or other.nullable,
            tuple(sorted({*self.scalars, *other.scalars})),
            formats.pop() if len(formats) == 1 else "",
            _union(self.items, other.items),
            _union(self.values, other.values),
            tuple(dict.fromkeys((*self.objects, *other.objects))),
        )


def _union(first: JsonShape | None, second: JsonShape | None) -> JsonShape | None:
    return first.union(second) if first and second else first or second


def shape_of(schema: Any, definitions: Definitions, outer: frozenset[str] = frozenset()) -> JsonShape:
    """Return the shape of a schema. `outer`: the array definitions around it, to detect an array within itself."""
    return reduce(
        JsonShape.union,
        (_member_shape(member, definitions, outer) for member in alternatives(schema)),
        JsonShape(),
    )


def _member_shape(schema: Any, definitions: Definitions, outer: frozenset[str]) -> JsonShape:
    if "$ref" in schema:
        name = definition_name(schema["$ref"], definitions)
        if is_record(definitions[name]):
            return JsonShape(objects=(name,))
        if name in outer:  # an array that contains itself
            return JsonShape(anything=True)
        return shape_of(definitions[name], definitions, outer | {name})
    if "enum" in schema or "const" in schema:
        values = schema.get("enum") or [schema["const"]]
        return _types_shape([_type_name(value) for value in values], schema, definitions, outer)
    types = schema.get("type", ())
    return _types_shape([types] if isinstance(types, str) else types, schema, definitions, outer)


def _types_shape(
    types: Iterable[str], schema: Any, definitions: Definitions, outer: frozenset[str]
) -> JsonShape:
    """Return the shape of a schema with these JSON types; without types any value is possible."""
    shapes = []
    for name in types:
        match name:
            case "null":
                shapes.append(JsonShape(nullable=True))
            case "array":
                members = [*schema.get("prefixItems", ()), schema.get("items")]
                item_shapes = [
                    shape_of(item, definitions, outer) for item in members if isinstance(item, dict)
                ]
                item_shapes = item_shapes or [JsonShape(anything=True)]
                shapes.append(JsonShape(items=reduce(JsonShape.union, item_shapes)))
            case "object":
                values = schema.get("additionalProperties")
                shapes.append(JsonShape(values=shape_of(values or {}, definitions, outer)))
            case _:
                text_format = "base64" if "contentEncoding" in schema else schema.get("format", "")
                shapes.append(JsonShape(scalars=(name,), text_format=text_format))
    return reduce(JsonShape.union, shapes) if shapes else JsonShape(anything=True)


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    return {bool: "boolean", int: "integer", float: "number"}.get(type(value), "string")


def is_record(definition: Mapping[str, Any]) -> bool:
    """True for the schema of an object with named fields."""
    return "properties" in definition


def identifier(name: str) -> str:
    """Return a name as Avro and Protobuf permit it: letters of ASCII, digits and underscores."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return text if re.match(r"[A-Za-z_]", text) else f"_{text}"


def identifiers(names: Iterable[str], key: Callable[[str], str] = str) -> dict[str, str]:
    """Return an identifier for each name, such as {"e-mail": "e_mail"}. No two identifiers have the same `key`."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        text = identifier(name)
        candidates = (text, *(f"{text}{number}" for number in range(2, len(taken) + 3)))
        result[name] = next(candidate for candidate in candidates if key(candidate) not in taken)
        taken.add(key(result[name]))
    return result
