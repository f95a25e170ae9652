"""Checks commands, events and states for values without an exact form in JSON: NaN, infinities, times without offset.

The decoder of commands also rejects unknown fields at any depth, because a misspelt field would be ignored silently.
"""

import math
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as msgspec_types

from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of

_C = TypeVar("_C", bound=Command)

_CHECKED = (msgspec_types.DecimalType, msgspec_types.DateTimeType)


def require_finite(value: object) -> None:
    """Raise `ValueError` for NaN and infinities, which JSON cannot express (msgspec would write null)."""
    for path, leaf in _leaves(_to_builtins(value), ""):
        if _is_not_finite(leaf):
            raise ValueError(f"{_location(value, path)} is a number that is not finite")


def require_exact(value: object) -> None:
    """Raise `ValueError` as `require_finite` does, and for a time without an offset, which is ambiguous for readers."""
    for path, leaf in _leaves(_to_builtins(value), ""):
        if _is_not_finite(leaf):
            raise ValueError(f"{_location(value, path)} is a number that is not finite")
        if isinstance(leaf, datetime) and leaf.tzinfo is None:
            raise ValueError(
                f"{_location(value, path)} is a time without an offset: send a time like 2026-11-21T01:02:03Z"
            )


def command_decoder(cls: type[_C]) -> Callable[[bytes], _C]:
    """Return a decoder of a command that rejects unknown fields at every depth, and inexact values.

    Nested classes cannot forbid unknown fields themselves, because events may contain the same classes, and events
    ignore unknown fields.
    """
    decode = msgspec.json.Decoder(cls).decode
    type_tree = tree_of(cls)
    _, *parts = type_tree.all_nodes()
    has_objects = any(part.form == "object" for part in parts)
    has_checked_values = any(isinstance(part.msgspec_type, _CHECKED) for part in parts)
    if not has_objects and not has_checked_values:
        return decode

    def strict(data: bytes) -> _C:
        command = decode(data)
        try:
            if has_objects:
                _reject_unknown_fields(type_tree, msgspec.json.decode(data), "$")
            if has_checked_values:
                require_exact(command)
        except msgspec.ValidationError:
            raise
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None
        return command

    return strict


def _reject_unknown_fields(node: TypeNode, value: Any, path: str) -> None:
    """Raise `ValidationError` for a field that is not in the class of its object."""
    node = _union_member(node, value)
    if node.form == "object" and isinstance(value, dict):
        known_fields = {field.encode_name: field_type for field, field_type in node.fields}
        for name, item in value.items():
            if name in known_fields:
                _reject_unknown_fields(known_fields[name], item, f"{path}.{name}")
            elif name != getattr(node.msgspec_type, "tag_field", None):
                field_names = ", ".join(known_fields) or "no fields"
                raise msgspec.ValidationError(
                    f"Object contains unknown field `{name}` - at `{path}`, which has {field_names}"
                )
    elif node.form == "dict" and isinstance(value, dict):
        for item in value.values():
            _reject_unknown_fields(node.parts[1], item, f"{path}[...]")
    elif isinstance(value, list):
        if node.form in ("list", "set"):
            item_types = node.parts * len(value)
        else:  # an array-like object has its tag before its fields
            item_types, value = tuple(node.child_nodes()), value[_tag(node) is not None :]
        for item_type, item in zip(item_types, value, strict=False):
            _reject_unknown_fields(item_type, item, f"{path}[...]")


def _union_member(node: TypeNode, value: Any) -> TypeNode:
    """Return the union member of a value. Tags distinguish objects; in an array-like object, the tag comes first."""
    if node.form != "union":
        return node
    members = [_union_member(member, value) for member in node.parts]
    if isinstance(value, dict):
        objects = [member for member in members if member.form in ("object", "dict") and not member.is_list]
        tagged = [
            member
            for member in objects
            if _tag(member) is not None and value.get(member.msgspec_type.tag_field) == _tag(member)
        ]
        return (tagged or objects or members)[0]
    if isinstance(value, list):
        lists = [member for member in members if member.is_list]
        tagged = [member for member in lists if _tag(member) is not None and value[:1] == [_tag(member)]]
        return (tagged or lists or members)[0]
    return members[0]


def _tag(node: TypeNode) -> Any:
    return getattr(node.msgspec_type, "tag", None)


def _to_builtins(value: object) -> Any:
    return msgspec.to_builtins(value, builtin_types=(Decimal, datetime))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}")
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _leaves(item, f"{path}[...]")
    else:
        yield path, value


def _is_not_finite(value: object) -> bool:
    if isinstance(value, Decimal):
        return not value.is_finite()
    return isinstance(value, float) and not math.isfinite(value)


def _location(value: object, path: str) -> str:
    return f"{type(value).__name__}{path}"
