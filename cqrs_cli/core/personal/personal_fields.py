"""Personal-data annotations, which authors write on top-level fields of commands, events and states.

    owner: Personal[str]
    mail: Annotated[str, Meta(pattern="@"), personal(erased="x@invalid")]

An annotation covers the whole field. After an erasure, the field holds a redacted value.
This module cannot use `core.aggregate.type_tree`, because `core.aggregate` imports this module.
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


class AnnotationError(TypeError):
    """An invalid personal-data annotation; `where` is the class to correct."""

    def __init__(self, message: str, where: type) -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True, eq=False)  # `typing` would merge erased=False and erased=0, since they are equal
class PersonalAnnotation:
    """The annotation of a personal field. `erased` is the redacted value; unset for the default of the type."""

    erased: Any = UNSET

    def __call__(self, *, erased: Any) -> "PersonalAnnotation":
        """Return the annotation of a field with the redacted value `erased`."""
        return PersonalAnnotation(erased)


#: Annotates a personal field: `Annotated[str, personal]`, or with `personal(erased="unknown")` for a redacted value.
personal = PersonalAnnotation()

#: A personal field with the default redacted value of its type: `owner: Personal[str]`.
Personal: TypeAlias = Annotated[_T, personal]

#: The default redacted values of types, as JSON.
_REDACTED_VALUES: dict[type, bytes] = {
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
    wire_name: str  # its name in JSON
    redacted_json: bytes  # its redacted value, as JSON
    decode: Callable[[bytes], Any]  # decodes a value of its type

    def redacted_value(self) -> Any:
        """Return the redacted value of the field. Each call returns a new object, since the value may be a list."""
        return self.decode(self.redacted_json)


@lru_cache(maxsize=1000)
def personal_fields(cls: type[Struct]) -> tuple[PersonalField, ...]:
    """Return the personal fields of a message, in the order of its fields.

    Raises `AnnotationError` for an annotation below the top level, for two annotations of one field, and for a field
    without a redacted value of its type.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = []
    for name, wire_name in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        annotations, plain_type = annotations_of(hints[name])
        if any(isinstance(part, PersonalAnnotation) for part in _parts_of(plain_type, set())):
            raise AnnotationError(
                f"{cls.__name__}.{name} has a personal-data annotation within its type: annotate the whole field,"
                f" `{name}: cqrs.Personal[…]`",
                cls,
            )
        if len(annotations) > 1:
            raise AnnotationError(
                f"{cls.__name__}.{name} is annotated as personal twice: remove one annotation", cls
            )
        if annotations:
            fields.append(_personal_field(cls, name, wire_name, hints[name], annotations[0]))
    return tuple(fields)


def annotations_of(annotation: Any) -> tuple[list[PersonalAnnotation], Any]:
    """Return the personal-data annotations of a field, also within aliases, and its type without annotations."""
    annotations: list[PersonalAnnotation] = []
    while True:
        if typing.get_origin(annotation) is Annotated:
            annotations += [item for item in annotation.__metadata__ if isinstance(item, PersonalAnnotation)]
            annotation = annotation.__origin__
        elif (aliased := _aliased(annotation)) is not None:
            annotation = aliased
        else:
            return annotations, annotation


def _aliased(annotation: Any) -> Any:
    """Return the type of an alias (`type X = …`, `NewType`), None for any other annotation."""
    return getattr(annotation, "__value__", getattr(annotation, "__supertype__", None))


def _parts_of(annotation: Any, visited: set[type]) -> Iterator[Any]:
    """Yield all parts of a type, at any depth: arguments, metadata, and the fields of classes."""
    parts = [_aliased(annotation), typing.get_origin(annotation), *typing.get_args(annotation)]
    if isinstance(annotation, type) and annotation not in visited:
        visited.add(annotation)
        parts += typing.get_type_hints(annotation, include_extras=True).values()
    for part in parts:
        if part is not None:
            yield part
            yield from _parts_of(part, visited)


def _personal_field(
    cls: type, name: str, wire_name: str, annotation: Any, personal_annotation: PersonalAnnotation
) -> PersonalField:
    """Return a personal field; raises `AnnotationError` if it has no redacted value of its type."""
    correct_form = f"`{name}: Annotated[…, cqrs.personal(erased=…)]`"
    has_explicit_value = personal_annotation.erased is not UNSET
    redacted_json = (
        _encode_or_none(personal_annotation.erased) if has_explicit_value else _default_redacted(annotation)
    )
    if redacted_json is None and not has_explicit_value:
        raise AnnotationError(
            f"{cls.__name__}.{name}: its type has no default redacted value: write {correct_form}", cls
        )
    decode = msgspec.json.Decoder(annotation).decode
    try:
        value = decode(redacted_json or b"")
        fits = not has_explicit_value or bool(value == personal_annotation.erased)
    except (ValueError, RecursionError):  # msgspec raises subclasses of `ValueError`
        fits = False
    if not fits:
        shown_value = (
            repr(personal_annotation.erased) if has_explicit_value else (redacted_json or b"").decode()
        )
        raise AnnotationError(
            f"{cls.__name__}.{name}: its redacted value {shown_value:.100} does not match its type: use a value of this"
            f" type, {correct_form}",
            cls,
        )
    return PersonalField(name, wire_name, encode_json(value), decode)


def _encode_or_none(value: Any) -> bytes | None:
    """Return a redacted value as JSON; None if it has no form in JSON."""
    try:
        return encode_json(value)
    except (TypeError, ValueError, RecursionError):
        return None


def _default_redacted(annotation: Any) -> bytes | None:
    """Return the default redacted value of a type as JSON, `null` for an optional type; None if there is no default."""
    info = msgspec_types.type_info(annotation)
    while isinstance(info, msgspec_types.Metadata):
        info = info.type
    if isinstance(info, msgspec_types.UnionType):
        return b"null" if any(isinstance(member, msgspec_types.NoneType) for member in info.types) else None
    return _REDACTED_VALUES.get(type(info))
