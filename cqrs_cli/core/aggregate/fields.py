"""The fields of messages in words: types, defaults and values as their authors and senders know them."""

import dataclasses
import enum
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import inspect as msgspec_types

from cqrs_cli.core.messages.json import encode_json

_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "multiple_of": "a multiple of", "pattern": "like"}
_LENGTHS = {"min_length": "at least {} long", "max_length": "at most {} long"}


class FieldShape(NamedTuple):
    """A field of a message. `fields` are those of the object that it holds, directly or in a list or dict."""

    name: str  # on the wire
    type: str  # as one would write it: `int`, `'a' | 'b'`
    default: str | None  # as JSON; None if it is required
    about: str
    holds: str  # what stands between it and its fields: `[]` in a list, `[KEY]` in a dict
    fields: tuple["FieldShape", ...]

    def spelled(self) -> str:
        """`amount: int = 1`."""
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


def fields_of(cls: type) -> tuple[FieldShape, ...]:
    """The fields of a message, or of an object nested in one."""
    return _fields(cls, ())


def _fields(cls: type, above: tuple[type, ...]) -> tuple[FieldShape, ...]:
    """A type within itself is named, not opened again."""
    kinds = annotations_of(cls)
    return tuple(_field(field, kinds[field.name], (*above, cls)) for field in object_fields(cls))


def _field(field: msgspec_types.Field, annotation: Any, above: tuple[type, ...]) -> FieldShape:
    holds, nested = next(((h, cls) for h, cls in objects_in(annotation) if cls not in above), ("", None))
    return FieldShape(
        field.encode_name,
        spell_type(annotation),
        None if field.required else _default(field),
        " ".join(meta.description for meta in _metas(annotation) if meta.description),
        holds,
        _fields(nested, above) if nested else (),
    )


def is_object(annotation: Any) -> bool:
    """Tell whether this is a class that is an object of its fields in JSON."""
    if not isinstance(annotation, type):
        return False
    is_struct = issubclass(annotation, msgspec.Struct)
    return is_struct or dataclasses.is_dataclass(annotation) or typing.is_typeddict(annotation)


def object_fields(cls: type) -> tuple[msgspec_types.Field, ...]:
    """The fields of such a class."""
    described: Any = msgspec_types.type_info(cls)
    fields: tuple[msgspec_types.Field, ...] = described.fields
    return fields


def annotations_of(cls: type) -> dict[str, Any]:
    """The annotation of each of its fields."""
    return typing.get_type_hints(cls, include_extras=True)


def objects_in(annotation: Any, holds: str = "") -> Iterator[tuple[str, type]]:
    """The classes of objects that a field may hold, each with how it is held: `[]` in a list, `[KEY]` in a dict."""
    if is_object(annotation):
        yield holds, annotation
        return
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from objects_in(arguments[0], holds)
    elif origin in (typing.Union, types.UnionType):
        for member in arguments:
            yield from objects_in(member, holds)
    elif is_dict(origin):
        yield from objects_in(arguments[1], f"{holds}[KEY]")
    elif origin is not Literal:
        for member in arguments:
            yield from objects_in(member, f"{holds}[]")


def is_dict(origin: Any) -> bool:
    """Tell whether this is what a `dict[…]` is made of."""
    return isinstance(origin, type) and hasattr(origin, "keys")


def _default(field: msgspec_types.Field) -> str:
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    try:
        return encode_json(value).decode()
    except (TypeError, ValueError):
        return repr(value)


def values_of(annotation: Any) -> list[str]:
    """The values that a field admits, as JSON, if they are a closed set."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [encode_json(member.value).decode() for member in annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return [encode_json(value).decode() for value in arguments]
    if origin is typing.Annotated:
        return values_of(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return [value for member in arguments if member is not types.NoneType for value in values_of(member)]
    return []


def spell_type(annotation: Any) -> str:
    """The annotation as one would write it: `str | None`, `list[Line]`, `"red" | "blue"`, `int ≥ 0`."""
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
    if origin in (typing.Union, types.UnionType):
        return " | ".join(spell_type(member) for member in arguments)
    if origin is not None and arguments:
        return f"{origin.__name__}[{', '.join(map(spell_type, arguments))}]"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def _metas(annotation: Any) -> list[msgspec.Meta]:
    return [one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, msgspec.Meta)]


def _constraints(annotation: Any) -> Iterator[str]:
    for meta in _metas(annotation):
        for name, sign in _BOUNDS.items():
            if (bound := getattr(meta, name)) is not None:
                yield f"{sign} {bound}"
        for name, words in _LENGTHS.items():
            if (bound := getattr(meta, name)) is not None:
                yield words.format(bound)
