"""A type as a tree: each node has the author's annotation, and the type that msgspec derives from it.

Many modules inspect messages: for columns, for fields on the command line, for random values, and for types that JSON
cannot express. They all walk this tree, so only this module takes types apart. A node needs both types: only the
annotation has the values of a `Literal` in the author's order, and only msgspec's type has the limits and tags.

`schema_comparison` compares contracts without the tree, because earlier messages exist only as JSON Schema.
"""

import types
import typing
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from msgspec import UnsetType
from msgspec import inspect as msgspec_types

from cqrs_cli.core.personal.personal_fields import PersonalField, annotations_of, personal_fields

#: The kinds of types that callers distinguish. `object`: a class with named members; `enum`: also a `Literal`; `value`:
#: any other type without parts.
Form = Literal["object", "namedtuple", "list", "set", "tuple", "dict", "union", "enum", "value"]

_FORMS: dict[type, Form] = {
    msgspec_types.StructType: "object",
    msgspec_types.DataclassType: "object",
    msgspec_types.TypedDictType: "object",
    msgspec_types.NamedTupleType: "namedtuple",
    msgspec_types.ListType: "list",
    msgspec_types.VarTupleType: "list",
    msgspec_types.SetType: "set",
    msgspec_types.FrozenSetType: "set",
    msgspec_types.TupleType: "tuple",
    msgspec_types.DictType: "dict",
    msgspec_types.UnionType: "union",
    msgspec_types.LiteralType: "enum",
    msgspec_types.EnumType: "enum",
}
_WRAPPERS = (typing.Annotated, typing.Final, typing.Required, typing.NotRequired)


class TypeNode:
    """A node of the tree. Parts and fields are created on first use, because a type may contain itself."""

    def __init__(self, annotation: Any, msgspec_type: Any) -> None:
        while isinstance(msgspec_type, msgspec_types.Metadata):
            msgspec_type = msgspec_type.type
        self.annotation, self.msgspec_type = annotation, msgspec_type
        self.form: Form = _FORMS.get(type(msgspec_type), "value")

    @property
    def is_list(self) -> bool:
        """True if the type is a list in JSON."""
        return self.form in ("list", "set", "tuple", "namedtuple") or getattr(
            self.msgspec_type, "array_like", False
        )

    @property
    def is_personal(self) -> bool:
        """True if the annotation makes a field personal."""
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
        msgspec_type, part_types = self.msgspec_type, tuple[Any, ...]()
        match self.form:
            case "list" | "set":
                part_types = (msgspec_type.item_type,)
            case "tuple":
                part_types = msgspec_type.item_types
            case "dict":
                part_types = (msgspec_type.key_type, msgspec_type.value_type)
            case "union":
                part_types = msgspec_type.types
        argument_annotations = typing.get_args(self.unwrapped) or [Any] * len(part_types)
        return tuple(
            map(
                TypeNode,
                (argument for argument in argument_annotations if argument is not UnsetType),
                part_types,
            )
        )

    @cached_property
    def fields(self) -> tuple[tuple[msgspec_types.Field, "TypeNode"], ...]:
        """The fields of an object or a named tuple, each with its type."""
        if self.form not in ("object", "namedtuple"):
            return ()
        cls = typing.get_origin(self.msgspec_type.cls) or self.msgspec_type.cls
        type_arguments = dict(
            zip(getattr(cls, "__parameters__", ()), typing.get_args(self.msgspec_type.cls), strict=False)
        )
        hints = typing.get_type_hints(cls, include_extras=True)
        return tuple(
            (field, TypeNode(_substitute(hints.get(field.name, Any), type_arguments), field.type))
            for field in self.msgspec_type.fields
        )

    def child_nodes(self) -> Iterator["TypeNode"]:
        """Yield the types of which this type directly consists."""
        yield from self.parts
        yield from (field_type for _, field_type in self.fields)

    def all_nodes(self) -> Iterator["TypeNode"]:
        """Yield this type and every type within it, each once."""
        visited_ids: set[int] = set()
        pending = [self]
        while pending:
            node = pending.pop()
            if id(node.msgspec_type) not in visited_ids:
                visited_ids.add(id(node.msgspec_type))
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
