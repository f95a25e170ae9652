"""Converts values of rows to values of a command's fields. `field_types` converts in the opposite direction."""

import re
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


#: The type binary in the text of a column's type: in `array<binary>`, but not in `struct<binary:int>`.
_BINARY = re.compile(r"\bbinary\b(?!:)")

_BINARY_TYPES = (msgspec_types.BytesType, msgspec_types.ByteArrayType, msgspec_types.MemoryViewType)


class RowValueError(ValueError):
    """A value of a row that the field cannot have. The message follows the name of the column: "is not JSON"."""


def accepts_null(node: TypeNode) -> bool:
    """True if null is a value of the field type. Otherwise, null in a row means that the field is omitted."""
    if node.form == "union":
        return any(map(accepts_null, node.parts))
    return isinstance(node.msgspec_type, msgspec_types.NoneType | msgspec_types.AnyType)


def has_binary_text(node: TypeNode, column_type: Any, enclosing: tuple[type, ...]) -> bool:
    """True if a binary column, or a binary part of it, belongs to a type that is neither bytes nor a JSON column.

    JSON would contain such a value as Base64. `column_type`: Spark's `DataType` of the column. `enclosing`: as in
    `row_value_converter`.
    """
    members = [part for part in node.parts if not isinstance(part.msgspec_type, msgspec_types.NoneType)]
    if node.form == "union" and len(members) == 1:
        return has_binary_text(members[0], column_type, enclosing)
    if isinstance(node.msgspec_type, _BINARY_TYPES) or _converter_of_value(node, enclosing) is _from_json:
        return False
    match node.form, column_type.jsonValue():
        case "list" | "set", {"type": "array"}:
            parts = [(node.parts[0], column_type.elementType)]
        case "dict", {"type": "map"}:
            parts = list(zip(node.parts, (column_type.keyType, column_type.valueType), strict=True))
        case "object", {"type": "struct"}:
            enclosing = (*enclosing, node.msgspec_type.cls)
            field_types = {name: field_type for name, _, field_type in _columns_of_fields(node)}
            parts = [
                (field_types[column.name], column.dataType)
                for column in column_type
                if column.name in field_types
            ]
        case _:
            return _BINARY.search(column_type.simpleString()) is not None
    return any(has_binary_text(part, part_type, enclosing) for part, part_type in parts)


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


def _columns_of_fields(node: TypeNode) -> list[tuple[str, str, TypeNode]]:
    """Return (name in the column's struct, name in JSON, type) of the fields of a struct."""
    names = distinct_names([field.encode_name for field, _ in node.fields], (), "data_{}")
    return [
        (name, field.encode_name, field_type)
        for name, (field, field_type) in zip(names, node.fields, strict=True)
    ]


def _object_converter(node: TypeNode, enclosing: tuple[type, ...]) -> Callable[[Any], Any]:
    """Return the converter for a struct. It omits fields that are null but do not accept null."""
    inner_classes = (*enclosing, node.msgspec_type.cls)
    fields = {
        name: (encode_name, accepts_null(field_type), row_value_converter(field_type, inner_classes))
        for name, encode_name, field_type in _columns_of_fields(node)
    }

    def convert(struct: dict[str, Any]) -> dict[str, Any]:
        converted = {}
        for name, value in struct.items():
            encode_name, may_be_null, convert_field = fields.get(name, (name, True, None))
            if value is not None or may_be_null:
                converted[encode_name] = value if convert_field is None else convert_field(value)
        return converted

    return convert
