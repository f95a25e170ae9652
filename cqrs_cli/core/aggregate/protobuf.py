"""Converts JSON Schema to Protobuf 3, for `cqrs describe`. ProtoJSON reads the JSON of messages with the result.

A value that Protobuf cannot type (a union, a list of lists, a list with null) is a `google.protobuf.Value`.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cqrs_cli.core.aggregate.json_shape import JsonShape, identifiers, is_record, shape_of

#: Message → the declarations of its fields, such as `int64 amount`. The number of a field is its position, from 1.
#: The list only grows: a removed field keeps its number, and a field whose type changes gets a new number.
FieldNumbers = Mapping[str, Sequence[str]]

_VALUE, _LIST, _STRUCT = (f"google.protobuf.{name}" for name in ("Value", "ListValue", "Struct"))
_TIME = "google.protobuf.Timestamp"
_SCALARS = {"boolean": "bool", "integer": "int64", "number": "double", "string": "string"}
_NAMES_OF_SCALARS = {*_SCALARS.values(), "bytes"}
_TEXTS = {"date-time": _TIME, "base64": "bytes"}


def field_numbers(definitions: Mapping[str, Any], committed: FieldNumbers) -> dict[str, list[str]]:
    """Return the numbers of the fields of all messages: the committed numbers, and the next numbers for new fields."""
    numbers = {name: list(declarations) for name, declarations in committed.items()}
    names = identifiers(definitions)
    for name, definition in definitions.items():
        if is_record(definition):
            declarations = numbers.setdefault(name, [])
            new = (field.declaration for field in _fields(definition, definitions, names))
            declarations += [declaration for declaration in new if declaration not in declarations]
    return numbers


def proto_file(document: dict[str, Any], package: str, committed: FieldNumbers) -> str:
    """Return a .proto file with the messages of a JSON Schema with `$defs`, and with the messages in their fields."""
    definitions = document["$defs"]
    names = identifiers(definitions)
    numbers = field_numbers(definitions, committed)
    messages: dict[str, list[str]] = {}
    pending = list(shape_of(document, definitions).objects)
    while pending:
        name = pending.pop(0)
        if name not in messages:
            fields = list(_fields(definitions[name], definitions, names))
            messages[name] = _message(names[name], definitions[name], fields, numbers[name])
            pending += [nested for field in fields for nested in field.objects]
    lines = [line for message in messages.values() for line in message]
    imports = [
        f'import "google/protobuf/{file}.proto";'
        for file, types in (("struct", (_VALUE, _LIST, _STRUCT)), ("timestamp", (_TIME,)))
        if any(name in line for line in lines for name in types)
    ]
    return "\n".join(
        ['syntax = "proto3";', "", f"package {package};", *(["", *imports] if imports else []), *lines]
    )


class _Field(NamedTuple):
    """A field of a Protobuf message, without its number: `optional int64 amount [json_name = "the-amount"]`."""

    label: str  # "optional " or ""
    declaration: str  # "int64 amount"
    options: str  # ` [json_name = "the-amount"]`, or "" if protoc derives this name itself
    description: str
    objects: tuple[str, ...]  # the names of the definitions to which its type refers


def _fields(
    definition: Mapping[str, Any], definitions: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[_Field]:
    required = definition.get("required", ())
    field_names = identifiers(definition["properties"], _default_json_name)
    for json_name, schema in definition["properties"].items():
        shape = shape_of(schema, definitions)
        type_name, name = _type_of(shape, names), field_names[json_name]
        may_be_unset = shape.nullable or json_name not in required
        needs_json_name = _default_json_name(name) != json_name
        yield _Field(
            "optional " if may_be_unset and type_name in _NAMES_OF_SCALARS else "",
            f"{type_name} {name}",
            f' [json_name = "{_escaped(json_name)}"]' if needs_json_name else "",
            schema.get("description", ""),
            _named_definitions(shape),
        )


def _default_json_name(name: str) -> str:
    """Return the name in JSON that protoc derives from the name of a field: `ownerName` for `owner_name`."""
    return re.sub(r"_+(.?)", lambda match: match[1].upper(), name)


def _named_definitions(shape: JsonShape) -> tuple[str, ...]:
    """Return the names of the definitions to which the type of a field with this shape refers."""
    part = shape.items or shape.values
    if part is None:
        return shape.objects if _is_typed(shape) else ()
    return part.objects if _is_typed(shape) and _is_typed(part) and not part.nullable else ()


def _is_typed(shape: JsonShape) -> bool:
    """True if the values of a shape, apart from null, have one type."""
    types = len(shape.scalars) + len(shape.objects) + (shape.items is not None) + (shape.values is not None)
    return not shape.anything and types == 1


def _type_of(shape: JsonShape, names: Mapping[str, str]) -> str:
    if not _is_typed(shape):
        return _VALUE
    if shape.items is not None:
        return f"repeated {_part_type(shape.items, names)}"
    if shape.values is not None:
        return f"map<string, {_part_type(shape.values, names)}>"
    if shape.objects:
        return names[shape.objects[0]]
    (scalar,) = shape.scalars
    return _TEXTS.get(shape.text_format, "string") if scalar == "string" else _SCALARS[scalar]


def _part_type(shape: JsonShape, names: Mapping[str, str]) -> str:
    """Return the type of the items of a list or map, where Protobuf permits neither null nor a list nor a map."""
    if shape.nullable or not _is_typed(shape):
        return _VALUE
    if shape.items is not None:
        return _LIST
    return _STRUCT if shape.values is not None else _type_of(shape, names)


def _message(
    name: str, definition: Mapping[str, Any], fields: Sequence[_Field], declarations: Sequence[str]
) -> list[str]:
    """Return the lines of a message. The numbers of removed fields are reserved."""
    current = {field.declaration for field in fields}
    lines = ["", *_comment(definition.get("description", ""), ""), f"message {name} {{"]
    lines += [
        f"  reserved {number};  // {declaration}"
        for number, declaration in enumerate(declarations, 1)
        if declaration not in current
    ]
    for field in fields:
        number = declarations.index(field.declaration) + 1
        lines += _comment(field.description, "  ")
        lines.append(f"  {field.label}{field.declaration} = {number}{field.options};")
    return [*lines, "}"]


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}// {line}".rstrip() for line in inspect.cleandoc(text).splitlines()]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
