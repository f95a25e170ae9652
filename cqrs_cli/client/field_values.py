"""Parser of command fields on a command line: `amount=100`, `customer[name]=Ada`, `tag=a tag=b`."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.inspect import AnyType, NoneType

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.fields import fields_of, spell_type, values_of
from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of
from cqrs_cli.core.aggregate.values import require_finite
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import UsageError

#: Matches a field such as `amount=100`, `amount:=100` or `lines[0][sku]=tea`.
_FIELD = re.compile(r"(?P<name>[^\W\d]\w*)(?P<path>(?:\[[^\]]*\])*)(?P<json>:?)=(?P<text>.*)", re.DOTALL)
_KEY = re.compile(r"\[([^\]]*)\]")


def command_data(aggregate: Aggregate, wire_type: str, fields: Sequence[str]) -> bytes:
    """Return the fields of a command as JSON that the command's decoder accepts.

    Raises `UsageError` with the name of an invalid field. The message never contains the value of a personal field.
    """
    command, personal_schema = aggregate.commands[wire_type], aggregate.personal
    known_fields = describe_fields(command)
    personal = {
        name for field in personal_schema.fields_of(command) for name in (field.name, field.wire_name)
    }
    values: dict[str, Any] = {}  # field → value
    for number, field_text in enumerate(fields, 1):
        match = _FIELD.fullmatch(field_text)
        if match is None:  # the text may be a part of a personal value, as in `name=Ann Lee` without quotes
            shown_text = f"argument {number} after {command.__name__}" if personal else repr(field_text[:60])
            raise UsageError(f"not a field: {shown_text}", "write field=text or field:=json")
        try:
            _set_field(wire_type, values, tree_of(command), match)
        except _DuplicateFieldError:
            raise UsageError(
                f"field {match['name'] + match['path']!r} is given twice", known_fields
            ) from None
        except LookupError as error:
            message, *own_hint = error.args
            raise UsageError(str(message), *(own_hint or [known_fields])) from None
        except ValueError as error:  # msgspec's errors are ValueErrors
            shown_text = match["name"] + match["path"] if match["name"] in personal else field_text[:60]
            raise UsageError(f"{shown_text}: {error}", known_fields) from None
    data = b""
    try:
        data = encode_json(values)
        aggregate.decode_command[wire_type](data)
    except ValueError as error:
        raise UsageError(
            f"{wire_type}: {personal_schema.redact_mismatch(str(error), command, data)}", known_fields
        ) from None
    return data


class _DuplicateFieldError(Exception):
    """A field is given twice."""


def _set_field(parent_name: str, values: Any, type_node: TypeNode, match: "re.Match[str]") -> None:
    """Set the value of a field in `values`, an object of the type `type_node` with the display name `parent_name`.

    `match`: a match of `_FIELD`, whose name and keys, such as `lines[0][sku]`, locate the value in the object.
    """
    keys, text, is_json = [match["name"], *_KEY.findall(match["path"])], match["text"], bool(match["json"])
    steps = []
    for key in keys:
        parent_name, key, type_node = _find_member(parent_name, type_node, key)
        steps.append((key, type_node))
    for key, member_type in steps[:-1]:
        values = _get_or_create(values, key, [] if _item_type(member_type) is not None else {})
    key, item_type = steps[-1][0], _item_type(type_node)
    field_path = match["name"] + match["path"]
    if item_type is not None and not is_json:  # `tag=a tag=b`
        values, key, type_node = _get_or_create(values, key, []), "", item_type
        field_path += f"[{len(values)}]"
    _set_value(
        values, key, _from_json(text, type_node) if is_json else _from_text(text, type_node, field_path)
    )


def _find_member(parent_name: str, type_node: TypeNode, key: str) -> tuple[str, str, TypeNode]:
    """Return the member `key` of the type `type_node`: its display name (`lines[0]`), its JSON key, its type.

    `parent_name`: the display name of the value that has the member. Raises `LookupError`, with the known members, if
    there is no such member.
    """
    type_node = _container_type(type_node)
    if type_node.form == "object":
        for field, field_type in type_node.fields:
            if key in (field.name, field.encode_name):
                return field.encode_name, field.encode_name, field_type
        raise LookupError(f"{parent_name} has no field {key!r}", describe_fields(type_node.msgspec_type.cls))
    if type_node.form == "dict":
        return f"{parent_name}[{key}]", key, type_node.parts[1]
    if (item_type := _item_type(type_node)) is not None:
        if key and not key.isdecimal():
            raise LookupError(
                f"{parent_name} is a list: write {parent_name}[]=… or {parent_name}[0]=…, not {parent_name}[{key}]"
            )
        return f"{parent_name}[{key}]", key, item_type
    if isinstance(type_node.msgspec_type, AnyType):
        return f"{parent_name}[{key}]", key, type_node
    raise LookupError(f"{parent_name} is {spell_type(type_node.unwrapped)}: it has no [{key}]")


def _union_members(type_node: TypeNode) -> list[TypeNode]:
    """Return the member types of a union, without null; for any other type, the type itself."""
    if type_node.form != "union":
        return [type_node]
    return [
        member
        for part in type_node.parts
        for member in _union_members(part)
        if not isinstance(member.msgspec_type, NoneType)
    ]


def _container_type(type_node: TypeNode) -> TypeNode:
    """Return the first member type of a union that is an object, dict, list or set; if there is none, the first member
    type.
    """
    members = _union_members(type_node)
    return next((member for member in members if member.form not in ("value", "enum")), members[0])


def _item_type(type_node: TypeNode) -> TypeNode | None:
    """Return the type of the items of a list or set; None for any other type."""
    first_member, *other_members = _union_members(type_node)
    return first_member.parts[0] if first_member.form in ("list", "set") and not other_members else None


def _get_or_create(values: Any, key: str, empty: Any) -> Any:
    """Return the list or object at the key `key` of `values`. If it is missing, set `empty` there, and return it."""
    if isinstance(values, list):
        if key and int(key) < len(values):
            return _require_same_type(values[int(key)], empty)
        _set_value(values, key, empty)
        return empty
    return _require_same_type(values.setdefault(key, empty), empty)


def _require_same_type(value: Any, empty: Any) -> Any:
    if type(value) is not type(empty):
        raise _DuplicateFieldError
    return value


def _set_value(values: Any, key: str, value: Any) -> None:
    """Set the value at a key of an object, or append it to a list.

    Raises `_DuplicateFieldError` if the key has a value, `LookupError` for an index that leaves a gap.
    """
    if isinstance(values, list):
        if key and int(key) < len(values):
            raise _DuplicateFieldError
        if key and int(key) > len(values):
            raise LookupError(f"[{key}] comes before [{len(values)}]: write the items in their order")
        values.append(value)
    elif key in values:
        raise _DuplicateFieldError
    else:
        values[key] = value


def _from_text(text: str, type_node: TypeNode, path: str) -> Any:
    """Convert a text to a value of the type: `100` to an int, `true` to a bool, any text to a str.

    `path`: the field in error messages, such as `customer[name]`. Raises `ValueError` for another text.
    """
    if isinstance(type_node.msgspec_type, AnyType):
        return text
    try:
        value = msgspec.convert(text, type_node.annotation, strict=False)
        require_finite(value)
        return value
    except msgspec.ValidationError:
        if values := values_of(type_node.annotation):
            raise ValueError(f"not one of {', '.join(values)}") from None
        if (container_type := _container_type(type_node)).form == "object":
            first_field = next((field.encode_name for field, _ in container_type.fields), "field")
            raise ValueError(f"it has fields of its own: write {path}[{first_field}]=…") from None
        raise


def _from_json(text: str, type_node: TypeNode) -> Raw:
    """Return the JSON `text` unchanged; raise `ValueError` if it is not JSON, or not of the type."""
    content = text.encode()
    try:
        msgspec.json.decode(content)
    except msgspec.DecodeError:
        raise ValueError(f"not JSON: {text[:40]} (a text is written with = instead of :=)") from None
    try:
        msgspec.json.decode(content, type=type_node.annotation)
    except msgspec.ValidationError as error:
        if (values := values_of(type_node.annotation)) and "enum value" in str(error):
            raise ValueError(f"not one of {', '.join(values)}") from None
        raise
    return Raw(content)


def describe_fields(cls: type) -> str:
    """Return a hint such as `Deposit takes amount: int`. `cls`: the class of a command or of an object in it."""
    fields_text = ", ".join(field.as_text() for field in fields_of(cls))
    return f"{cls.__name__} takes {fields_text or 'no fields'}"
