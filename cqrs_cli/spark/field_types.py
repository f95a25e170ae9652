"""Maps the fields of a message class to columns: a Spark type for each field, and the conversion of its values.

A field whose type has no Spark equivalent (a union, an untyped value, a recursive type) becomes a column of JSON texts.
"""

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec import inspect as msgspec_types

from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import CqrsError
from cqrs_cli.spark.view_names import distinct_names

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import DataType, StructType

#: Converts a field's value to the value that Arrow accepts; None if no conversion is needed.
Convert = Callable[[Any], Any] | None

#: Precision and scale of a `Decimal` column: 38 digits in total, 18 after the point. A value with more digits is an
#: error.
DECIMAL = (38, 18)

_TEXT_TYPES = (msgspec_types.UUIDType, msgspec_types.TimeDeltaType, msgspec_types.TimeType)


def arrow_schema(schema: "StructType") -> "pyarrow.Schema":
    """Return the Arrow schema of a Spark schema, with times in UTC. Older PySpark has no parameter for it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    takes_timezone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_timezone else to_arrow_schema(schema)


class FieldColumn(NamedTuple):
    """A column with the values of one field of a message."""

    name: str  # name of the column
    attribute: str  # name of the field's attribute in Python
    type: "DataType"
    convert: Convert
    optional: bool  # True if the value may be UNSET, because a message may omit the field


def field_columns(
    cls: type[msgspec.Struct], taken_names: frozenset[str] = frozenset(), template: str = "data_{}"
) -> list[FieldColumn]:
    """Return the fields of a message class as columns. A column has the field's name in JSON.

    If the name is in `taken_names`, or equals the name of an earlier field, the column is named by `template`: `amount`
    becomes `data_amount`. Case is ignored, as in Spark.
    """
    columns = []
    fields = tree_of(cls).fields
    names = distinct_names([field.encode_name for field, _ in fields], taken_names, template)
    for name, (field, field_type) in zip(names, fields, strict=True):
        column_type, convert = _column(field_type, (cls,))
        columns.append(FieldColumn(name, field.name, column_type, convert, _is_optional(field)))
    return columns


def _is_optional(field: Any) -> bool:
    return (
        not field.required
        and field.default is msgspec.NODEFAULT
        and field.default_factory is msgspec.NODEFAULT
    )


def _column(node: TypeNode, enclosing: tuple[type, ...]) -> "tuple[DataType, Convert]":
    """Return the column type and the conversion for a field type. `enclosing`: the enclosing classes, to detect
    recursion.
    """
    from pyspark.sql import types

    match node.form:
        case "enum":
            return _enum_or_literal_column(node)
        case "union":
            return _union_column(node, enclosing)
        case "list" | "set":
            return _list_column(node, enclosing)
        case "dict":
            return _dict_column(node, enclosing)
        case "object" if node.fields and node.msgspec_type.cls not in enclosing:
            return _object_column(node, enclosing)
    simple: dict[type, DataType] = {
        msgspec_types.StrType: types.StringType(),
        msgspec_types.IntType: types.LongType(),
        msgspec_types.FloatType: types.DoubleType(),
        msgspec_types.BoolType: types.BooleanType(),
        msgspec_types.DateType: types.DateType(),
        msgspec_types.BytesType: types.BinaryType(),
        msgspec_types.ByteArrayType: types.BinaryType(),
        msgspec_types.DecimalType: types.DecimalType(*DECIMAL),
    }
    if (simple_type := simple.get(type(node.msgspec_type))) is not None:
        return simple_type, None
    if isinstance(node.msgspec_type, msgspec_types.DateTimeType):
        return types.TimestampType(), _require_offset
    return types.StringType(), msgspec.to_builtins if isinstance(node.msgspec_type, _TEXT_TYPES) else _json


def _json(value: Any) -> str:
    return encode_json(value).decode()


def _require_offset(value: datetime) -> datetime:
    """Raise `ValueError` for a time without a UTC offset, because readers would interpret it differently."""
    if value.tzinfo is None:
        raise ValueError(f"a time without an offset: {value}")
    return value


def _enum_or_literal_column(node: TypeNode) -> "tuple[DataType, Convert]":
    """Return the column type of an enum or `Literal`: text or numbers, or JSON if it has values of both types."""
    from pyspark.sql import types

    is_enum = isinstance(node.msgspec_type, msgspec_types.EnumType)
    values = [member.value for member in node.msgspec_type.cls] if is_enum else node.msgspec_type.values
    convert = msgspec.to_builtins if is_enum else None
    if all(isinstance(value, str) for value in values):
        return types.StringType(), convert
    if all(isinstance(value, int) for value in values):
        return types.LongType(), convert
    return types.StringType(), _json


def _union_column(node: TypeNode, enclosing: tuple[type, ...]) -> "tuple[DataType, Convert]":
    """Return the column type of `T | None`, which is the type of `T`; any other union is JSON."""
    from pyspark.sql import types

    members = [part for part in node.parts if not isinstance(part.msgspec_type, msgspec_types.NoneType)]
    column_type, convert = (
        _column(members[0], enclosing) if len(members) == 1 else (types.StringType(), _json)
    )
    return column_type, None if convert is None else _unless_none(convert)


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _list_column(node: TypeNode, enclosing: tuple[type, ...]) -> "tuple[DataType, Convert]":
    """Return the column type of a list or set. The items of a set are sorted, so that their order is fixed."""
    from pyspark.sql import types

    item_type, convert = _column(node.parts[0], enclosing)
    to_list: Callable[[Any], list[Any]] = list if convert is None else lambda value: list(map(convert, value))
    sort_set: Callable[[Any], list[Any]] = lambda value: sorted(to_list(value), key=encode_json)  # noqa: E731
    return types.ArrayType(item_type), sort_set if node.form == "set" else to_list


def _dict_column(node: TypeNode, enclosing: tuple[type, ...]) -> "tuple[DataType, Convert]":
    from pyspark.sql import types

    value_type, convert = _column(node.parts[1], enclosing)
    map_type = types.MapType(types.StringType(), value_type)
    if convert is None:
        return map_type, lambda value: list(value.items())
    return map_type, lambda value: [(key, convert(item)) for key, item in value.items()]


def _object_column(node: TypeNode, enclosing: tuple[type, ...]) -> "tuple[DataType, Convert]":
    """Return a struct type of the object's fields."""
    from pyspark.sql import types

    inner_classes = (*enclosing, node.msgspec_type.cls)
    is_dict = isinstance(node.msgspec_type, msgspec_types.TypedDictType)
    names = distinct_names([field.encode_name for field, _ in node.fields], (), "data_{}")
    columns = [
        (name, field.encode_name if is_dict else field.name, *_column(field_type, inner_classes))
        for name, (field, field_type) in zip(names, node.fields, strict=True)
    ]

    def convert(value: Any) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        for name, attribute, _, convert_field in columns:
            field = value.get(attribute) if is_dict else getattr(value, attribute)
            if field is None or field is UNSET:
                converted[name] = None
            else:
                converted[name] = field if convert_field is None else convert_field(field)
        return converted

    fields = [types.StructField(name, column) for name, _, column, _ in columns]
    return types.StructType(fields), convert


def column_values(column: FieldColumn, values: list[Any]) -> list[Any]:
    """Return the values in the form that Arrow accepts; raise `ValueError` for a value that the column cannot hold."""
    if column.optional:
        values = [None if value is UNSET else value for value in values]
    convert = column.convert
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def value_array(
    column: FieldColumn, values: list[Any], arrow_type: Any, message_name: Callable[[int], str], hint: str
) -> "pyarrow.Array":
    """Return the values of a column as an Arrow array.

    Raises `CqrsError` with the hint `hint` for a value that the column cannot hold. `message_name(index)` returns the
    name of a message for the error, such as `bank.events partition 0 offset 7`.
    """
    import pyarrow

    conversion_errors = (ValueError, TypeError, OverflowError, pyarrow.ArrowException)
    try:
        return pyarrow.array(column_values(column, values), arrow_type)
    except conversion_errors:
        for number, value in enumerate(values):
            try:
                pyarrow.array(column_values(column, [value]), arrow_type)
            except conversion_errors as error:
                raise CqrsError(
                    f"{message_name(number)}: {column.attribute} does not fit into the column: {error}", hint
                ) from None
        raise
