"""The columns of each topic, as a Spark schema."""

from typing import TYPE_CHECKING

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.attributes import TEXT_COLUMNS
from cqrs_cli.core.messages.outcome import Verdict
from cqrs_cli.errors import UsageError
from cqrs_cli.spark.field_types import FieldColumn, field_columns
from cqrs_cli.spark.options import SourceKind

if TYPE_CHECKING:
    from msgspec import Struct
    from pyspark.sql.types import StructType

#: The number of attribute columns (id, type and subject) before the columns that only one topic has.
COMMON_ATTRIBUTES = 3


def _envelope(**own_columns: str) -> dict[str, str]:
    """Return column name → Spark type. `own_columns`: the columns that only this topic has."""
    position = {"partition": "int", "offset": "bigint", "timestamp": "timestamp"}
    texts = dict.fromkeys(TEXT_COLUMNS, "string")
    return {**position, **dict.fromkeys(list(texts)[:COMMON_ATTRIBUTES], "string"), **own_columns, **texts}


#: Topic → column name → Spark type, for the columns of the record's position and of the envelope.
ENVELOPE: dict[SourceKind, dict[str, str]] = {
    "events": _envelope(version="bigint"),
    "commands": _envelope(expected="string"),
    "outcomes": _envelope(),
}

#: The column with the message's `data` as JSON. It replaces the field columns if no message type is requested.
DATA = "data"


def wire_type(aggregate: Aggregate, kind: SourceKind, name: str) -> str:
    """Return the wire type, such as `bank_account.Deposited`, of a message type that the code has. `name`: `Deposited`
    or the wire type.

    Raises `UsageError` for an unknown type; the error lists the known types.
    """
    classes = aggregate.commands if kind == "commands" else aggregate.events
    wire_name = name if name in classes else f"{aggregate.name}.{name}"
    if wire_name not in classes:
        names = ", ".join(known_type.removeprefix(f"{aggregate.name}.") for known_type in classes)
        raise UsageError(f"{aggregate.name} has no {kind.removesuffix('s')} {name[:60]!r}", f"known: {names}")
    return wire_name


def message_class(
    aggregate: Aggregate | None, kind: SourceKind, type_name: str | None
) -> "type[Struct] | None":
    """Return the class whose fields become columns; None if the column `data` replaces them."""
    if kind == "outcomes":
        return Verdict
    if aggregate is None or type_name is None:
        return None
    wire_name = wire_type(aggregate, kind, type_name)
    return aggregate.commands[wire_name] if kind == "commands" else aggregate.events[wire_name]


def fields_as_columns(kind: SourceKind, cls: "type[Struct]") -> list[FieldColumn]:
    """Return the fields of `cls` as the columns that follow the envelope columns."""
    return field_columns(cls, frozenset(ENVELOPE[kind]))


def source_schema(kind: SourceKind, cls: "type[Struct] | None") -> "StructType":
    """Return the schema of a topic: the envelope, then the fields of `cls`, or `data` if `cls` is None."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

    spark_types = {
        "int": IntegerType(),
        "bigint": LongType(),
        "timestamp": TimestampType(),
        "string": StringType(),
    }
    fields = [StructField(name, spark_types[text]) for name, text in ENVELOPE[kind].items()]
    if cls is None:
        return StructType([*fields, StructField(DATA, StringType())])
    return StructType(
        [*fields, *(StructField(column.name, column.type) for column in fields_as_columns(kind, cls))]
    )
