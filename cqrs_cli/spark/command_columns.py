"""The columns of rows that become commands. They are checked when a write is planned, before any row is sent."""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of
from cqrs_cli.errors import UsageError
from cqrs_cli.formatting import did_you_mean
from cqrs_cli.spark.columns import DATA, ENVELOPE, fields_as_columns, wire_type
from cqrs_cli.spark.row_values import ConvertRowValue, accepts_null, has_binary_text, row_value_converter
from cqrs_cli.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: The columns of a command's attributes: the envelope columns of a read, without the position of the record.
ATTRIBUTES = tuple(
    name for name in ENVELOPE["commands"] if name not in ("partition", "offset", "timestamp", "type")
)


class CommandField(NamedTuple):
    """A field of a command, and the column with its values."""

    column: str  # name of the column
    name: str  # name of the field in JSON
    required: bool  # True if the field has no default
    accepts_null: bool  # True if null is a value of the field
    type: TypeNode
    convert: ConvertRowValue


def command_fields(aggregate: Aggregate, type_name: str) -> list[CommandField]:
    """Return the fields of a command type. Their columns have the same names as in a read of this type."""
    cls = aggregate.commands[wire_type(aggregate, "commands", type_name)]
    return [
        CommandField(
            column.name,
            field.encode_name,
            field.required,
            accepts_null(node),
            node,
            row_value_converter(node, (cls,)),
        )
        for column, (field, node) in zip(fields_as_columns("commands", cls), tree_of(cls).fields, strict=True)
    ]


def check_columns(schema: "StructType", aggregate: Aggregate, options: WriteOptions) -> None:
    """Raise `UsageError` for a column that the commands do not have, and for a required column that is missing."""
    types = {column.name: column.dataType.simpleString() for column in schema}
    if options.type is None:
        command, own_columns, required = f"a command of {aggregate.name}", ["type", DATA], ["type", DATA]
    else:
        fields = command_fields(aggregate, options.type)
        command = wire_type(aggregate, "commands", options.type)
        own_columns = [field.column for field in fields]
        required = [field.column for field in fields if field.required]
        enclosing = (aggregate.commands[command],)
        for field in fields:
            if field.column in types and has_binary_text(
                field.type, schema[field.column].dataType, enclosing
            ):
                raise UsageError(
                    f"column {field.column} is {types[field.column]}, which would be sent as Base64",
                    "cast it to string",
                )
    known_columns = [*ATTRIBUTES, *own_columns]
    for name in types:
        if name not in known_columns:
            hint = did_you_mean(name, known_columns) or f"known: {', '.join(known_columns)}"
            raise UsageError(f"{command} has no column {name!r}", hint)
    for name in ["subject", *required]:
        if name not in types:
            raise UsageError(f"{command} needs the column {name!r}", f"known: {', '.join(known_columns)}")
    _check_ids(types.keys(), options.numbers_rows)
    for name in types.keys() & {*ATTRIBUTES, *(own_columns if options.type is None else [])}:
        if types[name] != "string" and name != "expected":
            raise UsageError(f"column {name} is {types[name]}", "cast it to string")


def _check_ids(columns: Collection[str], numbers_rows: bool) -> None:
    if "id" in columns and numbers_rows:
        raise UsageError("option ids: the rows have a column id", "leave the option or the column out")
    if "id" not in columns and not numbers_rows:
        raise UsageError(
            "the rows have no column id, by which repeated commands are recognised",
            'add the column; or write .option("ids", "rows") if a repeated batch has the same rows in the same '
            "partitions in the same order, which no plan with a shuffle promises",
        )
