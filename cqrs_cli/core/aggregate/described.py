"""A type as a tree: each node has the annotation that its author wrote, and the type that msgspec reads from it.

Messages are looked into in many ways: as columns, as fields on a command line, as random values, for what JSON cannot
hold. All of them walk this tree, so a kind of type is taken apart in one place only. The annotation has the author's
words in their order; msgspec's type has limits and tags.

Contracts do not walk it: of the messages as they once were, there is only the JSON Schema (`shapes`).
"""

import types
import typing
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from msgspec import UnsetType
from msgspec import inspect as msgspec_types

Form = Literal["object", "row", "list", "set", "tuple", "dict", "union", "closed", "value"]

_FORMS: dict[type, Form] = {
    msgspec_types.StructType: "object",
    msgspec_types.DataclassType: "object",
    msgspec_types.TypedDictType: "object",
    msgspec_types.NamedTupleType: "row",
    msgspec_types.ListType: "list",
    msgspec_types.VarTupleType: "list",
    msgspec_types.SetType: "set",
    msgspec_types.FrozenSetType: "set",
    msgspec_types.TupleType: "tuple",
    msgspec_types.DictType: "dict",
    msgspec_types.UnionType: "union",
    msgspec_types.LiteralType: "closed",
    msgspec_types.EnumType: "closed",
}
_WRAPPERS = (typing.Annotated, typing.Final, typing.Required, typing.NotRequired)


class Described:
    """A type. Its parts and fields are made when they are first asked for, since a type may contain itself."""

    def __init__(self, annotation: Any, wire: Any) -> None:
        while isinstance(wire, msgspec_types.Metadata):
            wire = wire.type
        self.annotation, self.wire = annotation, wire
        self.form: Form = _FORMS.get(type(wire), "value")

    @property
    def is_list(self) -> bool:
        """True if it is a list in JSON."""
        return self.form in ("list", "set", "tuple", "row") or getattr(self.wire, "array_like", False)

    @cached_property
    def plain(self) -> Any:
        """The annotation without what stands around it: `Annotated`, the name of an alias, `| UnsetType`."""
        return _plain(self.annotation)

    @cached_property
    def parts(self) -> tuple["Described", ...]:
        """The item of a list or a set, the items of a tuple, key and value of a dict, the members of a union."""
        wire, wires = self.wire, tuple[Any, ...]()
        match self.form:
            case "list" | "set":
                wires = (wire.item_type,)
            case "tuple":
                wires = wire.item_types
            case "dict":
                wires = (wire.key_type, wire.value_type)
            case "union":
                wires = wire.types
        written = typing.get_args(self.plain) or [Any] * len(wires)
        return tuple(map(Described, (one for one in written if one is not UnsetType), wires))

    @cached_property
    def fields(self) -> tuple[tuple[msgspec_types.Field, "Described"], ...]:
        """The fields of an object or of a named tuple, each with its type."""
        if self.form not in ("object", "row"):
            return ()
        cls = typing.get_origin(self.wire.cls) or self.wire.cls
        given = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(self.wire.cls), strict=False))
        hints = typing.get_type_hints(cls, include_extras=True)
        return tuple(
            (one, Described(_filled(hints.get(one.name, Any), given), one.type)) for one in self.wire.fields
        )

    def within(self) -> Iterator["Described"]:
        """The types that it is directly made of."""
        yield from self.parts
        yield from (kind for _, kind in self.fields)

    def everything(self) -> Iterator["Described"]:
        """Every type within it, itself included, each once."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            one = waiting.pop()
            if id(one.wire) not in seen:
                seen.add(id(one.wire))
                yield one
                waiting.extend(one.within())


def tree_of(annotation: Any) -> Described:
    """The tree of a type; raises what msgspec raises for one that it cannot describe."""
    return Described(annotation, msgspec_types.type_info(annotation))


def _plain(annotation: Any) -> Any:
    arguments = [one for one in typing.get_args(annotation) if one is not UnsetType]
    if typing.get_origin(annotation) in _WRAPPERS or (is_union(annotation) and len(arguments) == 1):
        return _plain(arguments[0])
    for name in ("__supertype__", "__value__"):  # of `NewType`, and of `type X = …`
        if hasattr(annotation, name):
            return _plain(getattr(annotation, name))
    return annotation


def _filled(annotation: Any, given: Mapping[Any, Any]) -> Any:
    """The annotation of a field of a generic class with the types that are `given` to the class."""
    if not given:
        return annotation
    wanted = tuple(given.get(one, one) for one in getattr(annotation, "__parameters__", ()))
    return annotation[wanted] if wanted else given.get(annotation, annotation)


def is_union(annotation: Any) -> bool:
    """Tell whether it is `X | Y`, in either spelling."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)
