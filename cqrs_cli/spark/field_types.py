"""The fields of a message as columns: a Spark type for each field, and the conversion of its values.

A type without a column type (a union, an untyped value, a recursive type) becomes a string of JSON.
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

#: Converts a value of the message to the value that Arrow takes; None if no conversion is needed.
Convert = Callable[[Any], Any] | None

#: Precision and scale of a `Decimal`: 38 digits in total, 18 after the point. More digits are an error, never rounded.
DECIMAL = (38, 18)

_TEXTS = (msgspec_types.UUIDType, msgspec_types.TimeDeltaType, msgspec_types.TimeType)


def arrow_schema(schema: "StructType") -> "pyarrow.Schema":
    """Return the Arrow schema of a Spark schema, with times in UTC. Only newer PySpark takes the time zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    takes_timezone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_timezone else to_arrow_schema(schema)


class FieldColumn(NamedTuple):
    """A column, the message attribute that it holds, and the conversion of its values."""

    name: str
    attribute: str
    type: "DataType"
    convert: Convert
    optional: bool  # the field may be left out and has no default: its value is UNSET then


def field_columns(
    cls: type[msgspec.Struct], taken: frozenset[str] = frozenset(), form: str = "data_{}"
) -> list[FieldColumn]:
    """Return the fields of a message as columns, by their names on the wire.

    A name in `taken` or of another field (compared without case, because Spark ignores case) is changed by `form`.
    """
    columns = []
    fields = tree_of(cls).fields
    names = distinct_names([field.encode_name for field, _ in fields], taken, form)
    for name, (field, field_type) in zip(names, fields, strict=True):
        kind, convert = _column(field_type, (cls,))
        columns.append(FieldColumn(name, field.name, kind, convert, _is_optional(field)))
    return columns


def _is_optional(field: Any) -> bool:
    return (
        not field.required
        and field.default is msgspec.NODEFAULT
        and field.default_factory is msgspec.NODEFAULT
    )


def _column(kind: TypeNode, above: tuple[type, ...]) -> "tuple[DataType, Convert]":
    """Return the column type of a field type; `above` holds the enclosing classes, to detect recursion."""
    from pyspark.sql import types

    match kind.form:
        case "closed":
            return _closed(kind)
        case "union":
            return _union(kind, above)
        case "list" | "set":
            return _list(kind, above)
        case "dict":
            return _dict(kind, above)
        case "object" if kind.fields and kind.wire.cls not in above:
            return _object(kind, above)
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
    if (found := simple.get(type(kind.wire))) is not None:
        return found, None
    if isinstance(kind.wire, msgspec_types.DateTimeType):
        return types.TimestampType(), _aware
    return types.StringType(), msgspec.to_builtins if isinstance(kind.wire, _TEXTS) else _json


def _json(value: Any) -> str:
    return encode_json(value).decode()


def _aware(value: datetime) -> datetime:
    """Raise `ValueError` for a time without a UTC offset, which each reader would interpret differently."""
    if value.tzinfo is None:
        raise ValueError(f"a time without an offset: {value}")
    return value


def _closed(kind: TypeNode) -> "tuple[DataType, Convert]":
    """Return the column type of an enum or `Literal`: text or numbers, or JSON if the values are of both types."""
    from pyspark.sql import types

    is_enum = isinstance(kind.wire, msgspec_types.EnumType)
    values = [member.value for member in kind.wire.cls] if is_enum else kind.wire.values
    plain = msgspec.to_builtins if is_enum else None
    if all(isinstance(value, str) for value in values):
        return types.StringType(), plain
    if all(isinstance(value, int) for value in values):
        return types.LongType(), plain
    return types.StringType(), _json


def _union(kind: TypeNode, above: tuple[type, ...]) -> "tuple[DataType, Convert]":
    """Return the column type of `T | None`, which is the type of `T`; any other union is JSON."""
    from pyspark.sql import types

    members = [part for part in kind.parts if not isinstance(part.wire, msgspec_types.NoneType)]
    found, convert = _column(members[0], above) if len(members) == 1 else (types.StringType(), _json)
    return found, None if convert is None else _unless_none(convert)


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _list(kind: TypeNode, above: tuple[type, ...]) -> "tuple[DataType, Convert]":
    """Return the column type of a list or set. The items of a set are sorted, so that each process reads one order."""
    from pyspark.sql import types

    item, convert = _column(kind.parts[0], above)
    items: Callable[[Any], list[Any]] = list if convert is None else lambda value: list(map(convert, value))
    in_order: Callable[[Any], list[Any]] = lambda value: sorted(items(value), key=encode_json)  # noqa: E731
    return types.ArrayType(item), in_order if kind.form == "set" else items


def _dict(kind: TypeNode, above: tuple[type, ...]) -> "tuple[DataType, Convert]":
    from pyspark.sql import types

    item, convert = _column(kind.parts[1], above)
    if convert is None:
        return types.MapType(types.StringType(), item), lambda value: list(value.items())
    return (
        types.MapType(types.StringType(), item),
        lambda value: [(key, convert(one)) for key, one in value.items()],
    )


def _object(kind: TypeNode, above: tuple[type, ...]) -> "tuple[DataType, Convert]":
    """Return a struct type of the object's fields."""
    from pyspark.sql import types

    inner_above = (*above, kind.wire.cls)
    is_dict = isinstance(kind.wire, msgspec_types.TypedDictType)
    names = distinct_names([field.encode_name for field, _ in kind.fields], (), "data_{}")
    columns = [
        (name, field.encode_name if is_dict else field.name, *_column(of, inner_above))
        for name, (field, of) in zip(names, kind.fields, strict=True)
    ]

    def convert(value: Any) -> dict[str, Any]:
        found = {}
        for name, attribute, _, inner in columns:
            field = value.get(attribute) if is_dict else getattr(value, attribute)
            found[name] = (
                None if field is None or field is UNSET else field if inner is None else inner(field)
            )
        return found

    fields = [types.StructField(name, column) for name, _, column, _ in columns]
    return types.StructType(fields), convert


def column_values(column: FieldColumn, values: list[Any]) -> list[Any]:
    """Return the values of a column as Arrow takes them; raise `ValueError` for a value that the column cannot hold."""
    if column.optional:
        values = [None if value is UNSET else value for value in values]
    convert = column.convert
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def value_array(
    column: FieldColumn, values: list[Any], kind: Any, message_name: Callable[[int], str], hint: str
) -> "pyarrow.Array":
    """Return the values of a column as an Arrow array.

    Raises `CqrsError` with the hint `hint` for a value that the column cannot hold. `message_name(number)` names the
    message in the error, e.g. `bank.events partition 0 offset 7`.
    """
    import pyarrow

    conversion_errors = (ValueError, TypeError, OverflowError, pyarrow.ArrowException)
    try:
        return pyarrow.array(column_values(column, values), kind)
    except conversion_errors:
        for number, value in enumerate(values):
            try:
                pyarrow.array(column_values(column, [value]), kind)
            except conversion_errors as error:
                raise CqrsError(
                    f"{message_name(number)}: {column.attribute} has no place in a column: {error}", hint
                ) from None
        raise
