"""Marks of personal fields, as authors write them at the top level of commands, events and states.

    owner: Personal[str]
    mail: Annotated[str, Meta(pattern="@"), personal(erased="x@invalid")]

A mark covers the whole field, whatever is in it. When the key of an aggregate is gone, its fields hold placeholders.
`core.aggregate` imports this module, so it walks types by itself.
"""

import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Struct
from msgspec import inspect as msgspec_types

from cqrs_cli.core.messages.json import encode_json

_T = TypeVar("_T")


class MarkError(TypeError):
    """A mark that cannot be kept as it is written; `where` is the class to correct."""

    def __init__(self, message: str, where: type) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True, eq=False)  # `typing` takes annotations that are equal for one, and False equals 0
class Mark:
    """The mark. `erased`: the placeholder of the field; unset for the one of its type."""

    erased: Any = UNSET

    def __call__(self, *, erased: Any) -> "Mark":
        """The mark of a field whose placeholder is `erased`."""
        return Mark(erased)


#: Marks a field: `Annotated[str, personal]`, or with a placeholder `Annotated[str, personal(erased="nobody")]`.
personal = Mark()

#: A personal field with the placeholder of its type: `owner: Personal[str]`.
Personal: TypeAlias = Annotated[_T, personal]

#: The placeholders of types, as JSON.
_PLACEHOLDERS: dict[type, bytes] = {
    msgspec_types.NoneType: b"null",
    msgspec_types.AnyType: b"null",
    msgspec_types.StrType: b'""',
    msgspec_types.BytesType: b'""',
    msgspec_types.IntType: b"0",
    msgspec_types.FloatType: b"0.0",
    msgspec_types.DecimalType: b'"0"',
    msgspec_types.BoolType: b"false",
    msgspec_types.ListType: b"[]",
    msgspec_types.VarTupleType: b"[]",
    msgspec_types.SetType: b"[]",
    msgspec_types.FrozenSetType: b"[]",
    msgspec_types.DictType: b"{}",
}


class PersonalField(NamedTuple):
    """A marked field of a message."""

    name: str
    wire: str  # its name in JSON
    erased: bytes  # its placeholder, as JSON
    decode: Callable[[bytes], Any]  # reads a value of its type

    def placeholder(self) -> Any:
        """The value of the field when the key is gone. Each one is a new object: it may be a list."""
        return self.decode(self.erased)


@lru_cache(maxsize=1000)
def personal_fields(cls: type[Struct]) -> tuple[PersonalField, ...]:
    """The marked fields of a message, in its order.

    Raises `MarkError` for a mark below the top level, for two marks of one field, and for a field without a placeholder
    that fits its type.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    found = []
    for name, wire in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        marks, inner = marks_of(hints[name])
        if any(isinstance(part, Mark) for part in _within(inner, set())):
            raise MarkError(
                f"{cls.__name__}.{name} has a personal mark within its type: mark the whole field,"
                f" `{name}: cqrs.Personal[…]`",
                cls,
            )
        if len(marks) > 1:
            raise MarkError(f"{cls.__name__}.{name} is marked as personal twice", cls)
        if marks:
            found.append(_marked(cls, name, wire, hints[name], marks[0]))
    return tuple(found)


def marks_of(annotation: Any) -> tuple[list[Mark], Any]:
    """The marks of a field, through names of types, and its type without them."""
    marks: list[Mark] = []
    while True:
        if typing.get_origin(annotation) is Annotated:
            marks += [one for one in annotation.__metadata__ if isinstance(one, Mark)]
            annotation = annotation.__origin__
        elif (named := _named(annotation)) is not None:
            annotation = named
        else:
            return marks, annotation


def _named(annotation: Any) -> Any:
    """The type behind a name: `type X = …`, `NewType`."""
    return getattr(annotation, "__value__", getattr(annotation, "__supertype__", None))


def _within(annotation: Any, seen: set[type]) -> Iterator[Any]:
    """All that a type is made of, at any depth: arguments, metadata, the fields of its classes."""
    parts = [_named(annotation), typing.get_origin(annotation), *typing.get_args(annotation)]
    if isinstance(annotation, type) and annotation not in seen:
        seen.add(annotation)
        parts += typing.get_type_hints(annotation, include_extras=True).values()
    for part in parts:
        if part is not None:
            yield part
            yield from _within(part, seen)


def _marked(cls: type, name: str, wire: str, annotation: Any, mark: Mark) -> PersonalField:
    """A marked field; raises `MarkError` if no placeholder fits."""
    ask = f"`{name}: Annotated[…, cqrs.personal(erased=…)]`"
    given = mark.erased is not UNSET
    erased = _written(mark.erased) if given else _placeholder_of(annotation)
    if erased is None and not given:
        raise MarkError(f"{cls.__name__}.{name}: its type has no placeholder: give it one, {ask}", cls)
    decode = msgspec.json.Decoder(annotation).decode
    try:
        value = decode(erased or b"")
        fits = not given or bool(value == mark.erased)
    except (ValueError, RecursionError):  # msgspec's errors are
        fits = False
    if not fits:
        shown = repr(mark.erased) if given else (erased or b"").decode()
        raise MarkError(
            f"{cls.__name__}.{name}: its placeholder {shown:.100} does not fit its type: give it one that does, {ask}",
            cls,
        )
    return PersonalField(name, wire, encode_json(value), decode)


def _written(value: Any) -> bytes | None:
    """A placeholder as JSON; None for one that has no form there."""
    try:
        return encode_json(value)
    except (TypeError, ValueError, RecursionError):
        return None


def _placeholder_of(annotation: Any) -> bytes | None:
    """The placeholder of a type, as JSON: null where it may be null. None for a type that has none."""
    wire = msgspec_types.type_info(annotation)
    while isinstance(wire, msgspec_types.Metadata):
        wire = wire.type
    if isinstance(wire, msgspec_types.UnionType):
        return b"null" if any(isinstance(one, msgspec_types.NoneType) for one in wire.types) else None
    return _PLACEHOLDERS.get(type(wire))
