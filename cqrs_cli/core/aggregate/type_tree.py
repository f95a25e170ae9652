"""A type as a tree: each node has the author's annotation, and the type that msgspec derives from it.

Many modules inspect messages: for columns, for fields on the command line, for random values, and for types that JSON
cannot express. They all walk this tree, so only this module takes types apart. The annotation has
the literal values in the author's order, while msgspec sorts them; msgspec's type has limits and tags.

Contracts are compared without the tree, because earlier messages exist only as JSON Schema (`schema_comparison`).
"""

import types
import typing
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from msgspec import UnsetType
from msgspec import inspect as msgspec_types

from cqrs_cli.core.personal.personal_fields import PersonalField, annotations_of, personal_fields

#: `row` is a named tuple, `closed` an enum or a literal, `value` any other type without parts.
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


class TypeNode:
    """A node of the tree. Parts and fields are created on first use, because a type may contain itself."""

    def __init__(self, annotation: Any, wire: Any) -> None:
        while isinstance(wire, msgspec_types.Metadata):
            wire = wire.type
        self.annotation, self.wire = annotation, wire
        self.form: Form = _FORMS.get(type(wire), "value")

    @property
    def is_list(self) -> bool:
        """True if the type is a list in JSON."""
        return self.form in ("list", "set", "tuple", "row") or getattr(self.wire, "array_like", False)

    @property
    def is_personal(self) -> bool:
        """True if this is the annotation of a personal field."""
        return bool(annotations_of(self.annotation)[0])

    @property
    def personal_fields(self) -> tuple[PersonalField, ...]:
        """The personal fields of a message; raises `AnnotationError` for an invalid annotation."""
        return personal_fields(self.annotation)

    @cached_property
    def unwrapped(self) -> Any:
        """The annotation without wrappers: `Annotated`, the name of an alias, `| UnsetType`."""
        return _unwrap(self.annotation)

    @cached_property
    def parts(self) -> tuple["TypeNode", ...]:
        """The item type of a list or set, item types of a tuple, key and value of a dict, members of a union."""
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
        argument_annotations = typing.get_args(self.unwrapped) or [Any] * len(wires)
        return tuple(
            map(TypeNode, (argument for argument in argument_annotations if argument is not UnsetType), wires)
        )

    @cached_property
    def fields(self) -> tuple[tuple[msgspec_types.Field, "TypeNode"], ...]:
        """The fields of an object or a named tuple, each with its type."""
        if self.form not in ("object", "row"):
            return ()
        cls = typing.get_origin(self.wire.cls) or self.wire.cls
        type_arguments = dict(
            zip(getattr(cls, "__parameters__", ()), typing.get_args(self.wire.cls), strict=False)
        )
        hints = typing.get_type_hints(cls, include_extras=True)
        return tuple(
            (field, TypeNode(_substitute(hints.get(field.name, Any), type_arguments), field.type))
            for field in self.wire.fields
        )

    def child_nodes(self) -> Iterator["TypeNode"]:
        """Yield the types of which this type directly consists."""
        yield from self.parts
        yield from (field_type for _, field_type in self.fields)

    def all_nodes(self) -> Iterator["TypeNode"]:
        """Yield this type and every type within it, each once."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            node = pending.pop()
            if id(node.wire) not in seen:
                seen.add(id(node.wire))
                yield node
                pending.extend(node.child_nodes())


def tree_of(annotation: Any) -> TypeNode:
    """Return the tree of a type; raises msgspec's errors for a type that msgspec cannot describe."""
    return TypeNode(annotation, msgspec_types.type_info(annotation))


def _unwrap(annotation: Any) -> Any:
    arguments = [argument for argument in typing.get_args(annotation) if argument is not UnsetType]
    if typing.get_origin(annotation) in _WRAPPERS or (is_union(annotation) and len(arguments) == 1):
        return _unwrap(arguments[0])
    for name in ("__supertype__", "__value__"):  # of `NewType`, and of `type X = …`
        if hasattr(annotation, name):
            return _unwrap(getattr(annotation, name))
    return annotation


def _substitute(annotation: Any, type_arguments: Mapping[Any, Any]) -> Any:
    """Return the annotation of a field of a generic class, with its type variables replaced by `type_arguments`."""
    if not type_arguments:
        return annotation
    arguments = tuple(
        type_arguments.get(parameter, parameter) for parameter in getattr(annotation, "__parameters__", ())
    )
    return annotation[arguments] if arguments else type_arguments.get(annotation, annotation)


def is_union(annotation: Any) -> bool:
    """True for `X | Y` and `Union[X, Y]`."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)
