"""Values that JSON cannot carry from one reader to the next: numbers that are not finite, times without an offset.

And fields that an object of a command does not know, at any depth: a misspelt one would be lost without a word.
"""

import math
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import inspect as msgspec_types

from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.schema import parts_of

_LISTS = (
    msgspec_types.ListType,
    msgspec_types.SetType,
    msgspec_types.FrozenSetType,
    msgspec_types.VarTupleType,
    msgspec_types.CollectionType,
)
_TUPLES = (msgspec_types.TupleType, msgspec_types.NamedTupleType)
_OBJECTS = (msgspec_types.StructType, msgspec_types.DataclassType, msgspec_types.TypedDictType)
_MAPPINGS = (*_OBJECTS, msgspec_types.DictType)
_CHECKED = (msgspec_types.DecimalType, msgspec_types.DateTimeType)


def require_finite(value: object) -> None:
    """Refuse NaN and infinities, which JSON cannot say (msgspec would write null); raises `ValueError`."""
    for path, one in _leaves(_plain(value), ""):
        if _is_endless(one):
            raise ValueError(f"{_place(value, path)} is a number that is not finite")


def require_exact(value: object) -> None:
    """Refuse, besides what is not finite, a time without its offset, which each reader would take for another one."""
    for path, one in _leaves(_plain(value), ""):
        if _is_endless(one):
            raise ValueError(f"{_place(value, path)} is a number that is not finite")
        if isinstance(one, datetime) and one.tzinfo is None:
            raise ValueError(f"{_place(value, path)} is a time without its offset, like 2026-11-21T01:02:03Z")


def command_decoder(cls: type[Command]) -> Callable[[bytes], Command]:
    """A decoder of a command that refuses unknown fields at every depth, and values that are not exact.

    Events ignore fields that they do not know; so the classes within are not asked to refuse them.
    """
    decode = msgspec.json.Decoder(cls).decode
    whole = msgspec_types.type_info(cls)
    parts = list(parts_of(whole))
    nests = any(part is not whole and isinstance(part, _OBJECTS) for part in parts)
    checked = any(isinstance(part, _CHECKED) for part in parts)
    if not nests and not checked:
        return decode

    def strict(data: bytes) -> Command:
        command = decode(data)
        try:
            if nests:
                _refuse_unknown(whole, msgspec.json.decode(data), "$")
            if checked:
                require_exact(command)
        except msgspec.ValidationError:
            raise
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None
        return command

    return strict


def _refuse_unknown(kind: msgspec_types.Type, value: Any, path: str) -> None:
    """Raise `ValidationError` for a field of an object that its class does not have."""
    kind = _chosen(kind, value)
    if isinstance(kind, _OBJECTS) and isinstance(value, dict):
        known = {field.encode_name: field.type for field in kind.fields}
        tag = getattr(kind, "tag_field", None)
        for name, item in value.items():
            if name in known:
                _refuse_unknown(known[name], item, f"{path}.{name}")
            elif name != tag:
                has = ", ".join(known) or "no fields"
                raise msgspec.ValidationError(
                    f"Object contains unknown field `{name}` - at `{path}`, which has {has}"
                )
    elif isinstance(kind, msgspec_types.DictType) and isinstance(value, dict):
        for item in value.values():
            _refuse_unknown(kind.value_type, item, f"{path}[...]")
    elif isinstance(value, list):
        for item_kind, item in zip(_items(kind, len(value)), value, strict=False):
            _refuse_unknown(item_kind, item, f"{path}[...]")


def _items(kind: msgspec_types.Type, length: int) -> list[msgspec_types.Type]:
    if isinstance(kind, _LISTS):
        return [kind.item_type] * length
    if isinstance(kind, msgspec_types.TupleType):
        return list(kind.item_types)
    tag = [msgspec_types.AnyType()] if _tag(kind) is not None else []
    return [*tag, *(field.type for field in getattr(kind, "fields", ()))]  # an object written as a list


def _chosen(kind: msgspec_types.Type, value: Any) -> msgspec_types.Type:
    """The member of a union that a value is of; a union tells its objects by their tags, which come first in a list."""
    if isinstance(kind, msgspec_types.Metadata):
        return _chosen(kind.type, value)
    if not isinstance(kind, msgspec_types.UnionType):
        return kind
    members = [_chosen(member, value) for member in kind.types]
    if isinstance(value, dict):
        objects = [one for one in members if isinstance(one, _MAPPINGS) and not _is_list(one)]
        tagged = [one for one in objects if _tag(one) is not None and value.get(_tag_field(one)) == _tag(one)]
        return (tagged or objects or members)[0]
    if isinstance(value, list):
        rows = [one for one in members if _is_list(one)]
        first = [one for one in rows if _tag(one) is not None and value[:1] == [_tag(one)]]
        return (first or rows or members)[0]
    return members[0]


def _is_list(kind: msgspec_types.Type) -> bool:
    return isinstance(kind, (*_LISTS, *_TUPLES)) or getattr(kind, "array_like", False)


def _tag(kind: msgspec_types.Type) -> Any:
    return getattr(kind, "tag", None)


def _tag_field(kind: msgspec_types.Type) -> Any:
    return getattr(kind, "tag_field", None)


def _plain(value: object) -> Any:
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


def _is_endless(value: object) -> bool:
    if isinstance(value, Decimal):
        return not value.is_finite()
    return isinstance(value, float) and not math.isfinite(value)


def _place(value: object, path: str) -> str:
    return f"{type(value).__name__}{path}"
