"""Personal-data annotations, which authors write on top-level fields of commands, events and states.

    owner: Personal[str]
    mail: Annotated[str, Meta(pattern="@"), personal(erased="x@invalid")]

An annotation covers the whole field. After an erasure, the field holds a redacted value.
`core.aggregate` imports this module, so this module cannot use its tree of types (`described`).
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
    """An invalid personal-data annotation; `where` is the class to correct."""

    def __init__(self, message: str, where: type) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True, eq=False)  # `typing` merges equal annotations, and False equals 0
class Mark:
    """The annotation of a personal field. `erased` is the redacted value; unset for the default of the type."""

    erased: Any = UNSET

    def __call__(self, *, erased: Any) -> "Mark":
        """Return the annotation of a field with the redacted value `erased`."""
        return Mark(erased)


#: Annotates a personal field: `Annotated[str, personal]`, or with `personal(erased="unknown")` for a redacted value.
personal = Mark()

#: A personal field with the default redacted value of its type: `owner: Personal[str]`.
Personal: TypeAlias = Annotated[_T, personal]

#: The default redacted values of types, as JSON.
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
    """A personal field of a message."""

    name: str
    wire: str  # its name in JSON
    erased: bytes  # its redacted value, as JSON
    decode: Callable[[bytes], Any]  # decodes a value of its type

    def placeholder(self) -> Any:
        """Return the redacted value of the field. Each call returns a new object, since the value may be a list."""
        return self.decode(self.erased)


@lru_cache(maxsize=1000)
def personal_fields(cls: type[Struct]) -> tuple[PersonalField, ...]:
    """Return the personal fields of a message, in the order of its fields.

    Raises `MarkError` for an annotation below the top level, for two annotations of one field, and for a field without
    a redacted value of its type.
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
    """Return the personal-data annotations of a field, also within aliases, and its type without annotations."""
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
    """Return the type of an alias (`type X = …`, `NewType`), None for any other annotation."""
    return getattr(annotation, "__value__", getattr(annotation, "__supertype__", None))


def _within(annotation: Any, seen: set[type]) -> Iterator[Any]:
    """Yield all parts of a type, at any depth: arguments, metadata, and the fields of classes."""
    parts = [_named(annotation), typing.get_origin(annotation), *typing.get_args(annotation)]
    if isinstance(annotation, type) and annotation not in seen:
        seen.add(annotation)
        parts += typing.get_type_hints(annotation, include_extras=True).values()
    for part in parts:
        if part is not None:
            yield part
            yield from _within(part, seen)


def _marked(cls: type, name: str, wire: str, annotation: Any, mark: Mark) -> PersonalField:
    """Return a personal field; raises `MarkError` if it has no redacted value of its type."""
    ask = f"`{name}: Annotated[…, cqrs.personal(erased=…)]`"
    given = mark.erased is not UNSET
    erased = _written(mark.erased) if given else _placeholder_of(annotation)
    if erased is None and not given:
        raise MarkError(f"{cls.__name__}.{name}: its type has no placeholder: give it one, {ask}", cls)
    decode = msgspec.json.Decoder(annotation).decode
    try:
        value = decode(erased or b"")
        fits = not given or bool(value == mark.erased)
    except (ValueError, RecursionError):  # msgspec raises subclasses of `ValueError`
        fits = False
    if not fits:
        shown = repr(mark.erased) if given else (erased or b"").decode()
        raise MarkError(
            f"{cls.__name__}.{name}: its placeholder {shown:.100} does not fit its type: give it one that does, {ask}",
            cls,
        )
    return PersonalField(name, wire, encode_json(value), decode)


def _written(value: Any) -> bytes | None:
    """Return a redacted value as JSON; None if it has no form in JSON."""
    try:
        return encode_json(value)
    except (TypeError, ValueError, RecursionError):
        return None


def _placeholder_of(annotation: Any) -> bytes | None:
    """Return the default redacted value of a type as JSON, `null` for an optional type; None if there is no default."""
    wire = msgspec_types.type_info(annotation)
    while isinstance(wire, msgspec_types.Metadata):
        wire = wire.type
    if isinstance(wire, msgspec_types.UnionType):
        return b"null" if any(isinstance(one, msgspec_types.NoneType) for one in wire.types) else None
    return _PLACEHOLDERS.get(type(wire))
