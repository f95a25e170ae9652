"""Parser of command fields on a command line: `amount=100`, `customer[name]=Ada`, `tag=a tag=b`."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.inspect import AnyType, NoneType

from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.fields import fields_of, spell_type, values_of
from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of
from cqrs_cli.core.aggregate.values import require_finite
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.personal_fields import personal_fields
from cqrs_cli.core.personal.redaction import personal_texts_in, redact_text
from cqrs_cli.errors import UsageError

#: `amount=100`, `amount:=100`, `lines[0][sku]=tea`.
_FIELD = re.compile(r"(?P<name>[^\W\d]\w*)(?P<path>(?:\[[^\]]*\])*)(?P<json>:?)=(?P<text>.*)", re.DOTALL)
_KEY = re.compile(r"\[([^\]]*)\]")


def command_data(
    wire_type: str, command: type[Command], decode: Callable[[bytes], Command], fields: Sequence[str]
) -> bytes:
    """Return the fields as JSON that the command's decoder takes; raise `UsageError` with the name of an invalid field.

    Error messages never contain the value of a personal field.
    """
    known_fields = describe_fields(command)
    personal = {name for field in personal_fields(command) for name in (field.name, field.wire)}
    values: dict[str, Any] = {}
    for given in fields:
        match = _FIELD.fullmatch(given)
        if match is None:
            shown = "" if personal else f": {given[:60]!r}"
            raise UsageError(f"not a field{shown}", "write field=text or field:=json")
        try:
            _set_field(wire_type, values, tree_of(command), match)
        except _GivenTwiceError:
            raise UsageError(
                f"field {match['name'] + match['path']!r} is given twice", known_fields
            ) from None
        except LookupError as error:
            message, *own_hint = error.args
            raise UsageError(str(message), *(own_hint or [known_fields])) from None
        except ValueError as error:  # msgspec's errors are ValueErrors
            shown = match["name"] + match["path"] if match["name"] in personal else given[:60]
            raise UsageError(f"{shown}: {error}", known_fields) from None
    data = b""
    try:
        data = encode_json(values)
        decode(data)
    except ValueError as error:
        raise UsageError(
            f"{wire_type}: {redact_text(str(error), personal_texts_in(command, data))}", known_fields
        ) from None
    return data


class _GivenTwiceError(Exception):
    """A field is given twice."""


def _set_field(owner: str, values: Any, kind: TypeNode, match: "re.Match[str]") -> None:
    """Set the value at the field's name and keys (`lines[0][sku]`) in `values`, an object of type `kind`."""
    keys, text, is_json = [match["name"], *_KEY.findall(match["path"])], match["text"], bool(match["json"])
    steps = []
    for key in keys:
        owner, key, kind = _step(owner, kind, key)
        steps.append((key, kind))
    for key, holder in steps[:-1]:
        values = _enter(values, key, [] if _item(holder) is not None else {})
    key, item = steps[-1][0], _item(kind)
    field_path = match["name"] + match["path"]
    if item is not None and not is_json:  # `tag=a tag=b`
        values, key, kind = _enter(values, key, []), "", item
        field_path += f"[{len(values)}]"
    _set(values, key, _from_json(text, kind) if is_json else _from_text(text, kind, field_path))


def _step(owner: str, kind: TypeNode, key: str) -> tuple[str, str, TypeNode]:
    """Return a member of `owner`: its display name (`lines[0]`), its JSON key, its type.

    Raises `LookupError` with the known members if there is no such member.
    """
    kind = _holder(kind)
    if kind.form == "object":
        for field, of_field in kind.fields:
            if key in (field.name, field.encode_name):
                return field.encode_name, field.encode_name, of_field
        raise LookupError(f"{owner} has no field {key!r}", describe_fields(kind.wire.cls))
    if kind.form == "dict":
        return f"{owner}[{key}]", key, kind.parts[1]
    if (item := _item(kind)) is not None:
        if key and not key.isdecimal():
            raise LookupError(f"{owner} is a list: write {owner}[]=… or {owner}[0]=…, not {owner}[{key}]")
        return f"{owner}[{key}]", key, item
    if isinstance(kind.wire, AnyType):
        return f"{owner}[{key}]", key, kind
    raise LookupError(f"{owner} is {spell_type(kind.unwrapped)}: it has no [{key}]")


def _members(kind: TypeNode) -> list[TypeNode]:
    """Return the members of a union without null; for another type, the type itself."""
    if kind.form != "union":
        return [kind]
    return [
        member for part in kind.parts for member in _members(part) if not isinstance(member.wire, NoneType)
    ]


def _holder(kind: TypeNode) -> TypeNode:
    """Return the first member of a union that is an object, dict or list; else the first member."""
    members = _members(kind)
    return next((one for one in members if one.form not in ("value", "closed")), members[0])


def _item(kind: TypeNode) -> TypeNode | None:
    """Return the type of a list's items; None if the type is not a list."""
    first, *more = _members(kind)
    return first.parts[0] if first.form in ("list", "set") and not more else None


def _enter(values: Any, key: str, empty: Any) -> Any:
    """Return the list or object at a key, and create it if it is missing."""
    if isinstance(values, list):
        if key and int(key) < len(values):
            return _entered(values[int(key)], empty)
        _set(values, key, empty)
        return empty
    return _entered(values.setdefault(key, empty), empty)


def _entered(found: Any, empty: Any) -> Any:
    if type(found) is not type(empty):
        raise _GivenTwiceError
    return found


def _set(values: Any, key: str, value: Any) -> None:
    if isinstance(values, list):
        if key and int(key) < len(values):
            raise _GivenTwiceError
        if key and int(key) > len(values):
            raise LookupError(f"[{key}] comes before [{len(values)}]: write the items in their order")
        values.append(value)
    elif key in values:
        raise _GivenTwiceError
    else:
        values[key] = value


def _from_text(text: str, kind: TypeNode, place: str) -> Any:
    """Convert `100` for an int, `true` for a bool, any text for a str. `place` is for errors: `customer[name]`."""
    if isinstance(kind.wire, AnyType):
        return text
    try:
        value = msgspec.convert(text, kind.annotation, strict=False)
        require_finite(value)
        return value
    except msgspec.ValidationError:
        if values := values_of(kind.annotation):
            raise ValueError(f"not one of {', '.join(values)}") from None
        if (holder := _holder(kind)).form == "object":
            first = next((field.encode_name for field, _ in holder.fields), "field")
            raise ValueError(f"it has fields of its own: write {place}[{first}]=…") from None
        raise


def _from_json(text: str, kind: TypeNode) -> Raw:
    """Return JSON unchanged; raise `ValueError` for invalid JSON, and for a value of another type."""
    raw = text.encode()
    msgspec.json.decode(raw)
    try:
        msgspec.json.decode(raw, type=kind.annotation)
    except msgspec.ValidationError as error:
        if (values := values_of(kind.annotation)) and "enum value" in str(error):
            raise ValueError(f"not one of {', '.join(values)}") from None
        raise
    return Raw(raw)


def describe_fields(cls: type) -> str:
    """Return `Deposit takes amount: int`, a hint for a command or for an object in a command."""
    named = ", ".join(field.as_text() for field in fields_of(cls))
    return f"{cls.__name__} takes {named or 'no fields'}"
