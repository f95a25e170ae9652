"""Converts values of rows to values of a command's fields. `field_types` converts in the opposite direction."""

from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec
from msgspec import inspect as msgspec_types

from cqrs_cli.core.aggregate.type_tree import TypeNode
from cqrs_cli.spark.view_names import distinct_names

#: Converts a value in a row to a value that can be encoded as JSON; None if no conversion is needed. Raises
#: `RowValueError`, or another error for a value whose type a read of the field never returns.
ConvertRowValue = Callable[[Any], Any] | None


_BINARY_TYPES = (msgspec_types.BytesType, msgspec_types.ByteArrayType, msgspec_types.MemoryViewType)


class RowValueError(ValueError):
    """A value of a row that the field cannot have. The message follows the name of the column: "is not JSON"."""


def accepts_null(node: TypeNode) -> bool:
    """True if null is a value of the field type. Otherwise, null in a row means that the field is omitted."""
    if node.form == "union":
        return any(map(accepts_null, node.parts))
    return isinstance(node.msgspec_type, msgspec_types.NoneType | msgspec_types.AnyType)


def accepts_binary(node: TypeNode) -> bool:
    """True if a column of the type may be binary: the type has bytes, or the column holds JSON."""
    return _converter_of_value(node, ()) is _from_json or any(
        isinstance(part.msgspec_type, _BINARY_TYPES) for part in node.all_nodes()
    )


def row_value_converter(node: TypeNode, enclosing: tuple[type, ...]) -> ConvertRowValue:
    """Return the converter for a field type. `enclosing`: the enclosing classes, to detect recursion."""
    convert = _converter_of_value(node, enclosing)
    return None if convert is None else lambda value: None if value is None else convert(value)


def _from_json(text: Any) -> msgspec.Raw:
    """Return a JSON text unchanged: Python's values would lose the digits of large numbers."""
    try:
        return msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, TypeError, RecursionError):
        raise RowValueError("is not JSON") from None


def _finite(number: Any) -> Any:
    """Return a number. JSON has neither NaN nor infinity, and would contain null."""
    if isinstance(number, float) and not isfinite(number):
        raise RowValueError("is not a finite number")
    return number


def _converter_of_value(node: TypeNode, enclosing: tuple[type, ...]) -> ConvertRowValue:
    match node.form:
        case "union":
            members = [
                part for part in node.parts if not isinstance(part.msgspec_type, msgspec_types.NoneType)
            ]
            return row_value_converter(members[0], enclosing) if len(members) == 1 else _from_json
        case "list" | "set":
            convert_item = row_value_converter(node.parts[0], enclosing)
            return None if convert_item is None else lambda items: list(map(convert_item, items))
        case "dict":
            convert_entry = row_value_converter(node.parts[1], enclosing)
            if convert_entry is None:
                return None
            return lambda entries: {key: convert_entry(entry) for key, entry in entries.items()}
        case "object" if node.fields and node.msgspec_type.cls not in enclosing:
            return _object_converter(node, enclosing)
        case "enum" if not _has_values_of_one_type(node):
            return _from_json
        case "object" | "namedtuple" | "tuple":
            return _from_json
    if isinstance(node.msgspec_type, msgspec_types.FloatType):
        return _finite
    return _from_json if isinstance(node.msgspec_type, msgspec_types.AnyType) else None


def _has_values_of_one_type(node: TypeNode) -> bool:
    is_enum = isinstance(node.msgspec_type, msgspec_types.EnumType)
    values = [member.value for member in node.msgspec_type.cls] if is_enum else node.msgspec_type.values
    return any(all(isinstance(value, value_type) for value in values) for value_type in (str, int))


def _object_converter(node: TypeNode, enclosing: tuple[type, ...]) -> Callable[[Any], Any]:
    """Return the converter for a struct. It omits fields that are null but do not accept null."""
    names = distinct_names([field.encode_name for field, _ in node.fields], (), "data_{}")
    inner_classes = (*enclosing, node.msgspec_type.cls)
    fields = {
        name: (field.encode_name, accepts_null(field_type), row_value_converter(field_type, inner_classes))
        for name, (field, field_type) in zip(names, node.fields, strict=True)
    }

    def convert(struct: dict[str, Any]) -> dict[str, Any]:
        converted = {}
        for name, value in struct.items():
            encode_name, may_be_null, convert_field = fields.get(name, (name, True, None))
            if value is not None or may_be_null:
                converted[encode_name] = value if convert_field is None else convert_field(value)
        return converted

    return convert
