"""Describes the fields of messages for people: types, defaults and values as text."""

import enum
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import inspect as msgspec_types

from cqrs_cli.core.aggregate.type_tree import TypeNode, is_union, tree_of
from cqrs_cli.core.messages.json import encode_json

_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "multiple_of": "a multiple of", "pattern": "like"}
_LENGTHS = {"min_length": "at least {} long", "max_length": "at most {} long"}


class FieldShape(NamedTuple):
    """A field of a message. If it is an object, or a list or dict of objects, `fields` are the fields of the object."""

    name: str  # on the wire
    type: str  # as text: `int ≥ 0`, `"red" | "blue"`
    default: str | None  # as JSON; None if the field is required
    description: str  # the description in its annotation
    path: str  # the path from the field to `fields`: `[]` for a list, `[KEY]` for a dict
    fields: tuple["FieldShape", ...]
    is_personal: bool

    def as_text(self) -> str:
        """Return the field as text: `amount: int = 1`."""
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


def fields_of(cls: type) -> tuple[FieldShape, ...]:
    """Return the fields of a message, or of an object within a message."""
    return _fields(tree_of(cls), ())


def _fields(type_node: TypeNode, outer_classes: tuple[type, ...]) -> tuple[FieldShape, ...]:
    """Return the fields of a type. A type that contains itself is not expanded again."""
    outer_classes = (*outer_classes, type_node.msgspec_type.cls)
    return tuple(_field(field, field_type, outer_classes) for field, field_type in type_node.fields)


def _field(field: msgspec_types.Field, type_node: TypeNode, outer_classes: tuple[type, ...]) -> FieldShape:
    nested_objects = (
        (path, node)
        for path, node in _objects_in(type_node, "")
        if node.msgspec_type.cls not in outer_classes
    )
    path, nested = next(nested_objects, ("", None))
    return FieldShape(
        field.encode_name,
        spell_type(type_node.annotation),
        None if field.required else _default(field),
        " ".join(meta.description for meta in _metas(type_node.annotation) if meta.description),
        path,
        _fields(nested, outer_classes) if nested else (),
        type_node.is_personal,
    )


def _objects_in(type_node: TypeNode, path: str) -> Iterator[tuple[str, TypeNode]]:
    """Yield the objects that a field may hold, each with its path: `[]` in a list, `[KEY]` in a dict."""
    if type_node.form == "object":
        yield path, type_node
    elif type_node.form == "dict":
        yield from _objects_in(type_node.parts[1], f"{path}[KEY]")
    else:
        for part in type_node.parts:
            yield from _objects_in(part, path if type_node.form == "union" else f"{path}[]")


def _default(field: msgspec_types.Field) -> str:
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    try:
        return encode_json(value).decode()
    except (TypeError, ValueError):
        return repr(value)


def values_of(annotation: Any) -> list[str]:
    """Return the permitted values of an enum or a literal, also within a union, as JSON; [] for any other type."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [encode_json(member.value).decode() for member in annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return [encode_json(value).decode() for value in arguments]
    if origin is typing.Annotated:
        return values_of(arguments[0])
    if is_union(annotation):
        return [value for member in arguments if member is not types.NoneType for value in values_of(member)]
    return []


def spell_type(annotation: Any) -> str:
    """Return an annotation as text: `str | null`, `list[Line]`, `"red" | "blue"`, `int ≥ 0`."""
    if annotation in (None, types.NoneType):
        return "null"
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " | ".join(values_of(annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " | ".join(values_of(annotation))
    if origin is typing.Annotated:
        return " ".join([spell_type(arguments[0]), *_constraints(annotation)])
    if is_union(annotation):
        return " | ".join(spell_type(member) for member in arguments)
    if origin is not None and arguments:
        return f"{origin.__name__}[{', '.join(map(spell_type, arguments))}]"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def _metas(annotation: Any) -> list[msgspec.Meta]:
    return [meta for meta in getattr(annotation, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]


def _constraints(annotation: Any) -> Iterator[str]:
    for meta in _metas(annotation):
        for name, sign in _BOUNDS.items():
            if (bound := getattr(meta, name)) is not None:
                yield f"{sign} {bound}"
        for name, template in _LENGTHS.items():
            if (bound := getattr(meta, name)) is not None:
                yield template.format(bound)
