"""Creates commands from rows, on a worker."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from cqrs_cli.client.envelope import ArgumentNames, Attributes, ReadyCommand, create_command
from cqrs_cli.client.producer import CommandTooLargeError, OnFailure
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.spark.bad_rows import BadRows
from cqrs_cli.spark.columns import DATA, wire_type
from cqrs_cli.spark.command_columns import ATTRIBUTES, command_fields
from cqrs_cli.spark.row_values import RowValueError

if TYPE_CHECKING:
    import pyarrow

#: The CloudEvents source of commands from rows.
SPARK_SOURCE = "/cqrs/spark"

_COLUMN_NAMES = ArgumentNames(
    "column subject", "column id", "column expected", "column correlation", "column "
)

#: Finds the member in an error of msgspec: `amount` in "Expected `int`, got `str` - at `$.amount`".
_MEMBER = re.compile(r" - at `\$\.([^`.\[]+)")

_HINT = "correct the row, or filter it"

#: The errors of a value that Python cannot represent, such as a map with structs as keys.
_UNREADABLE = (OverflowError, ValueError, TypeError, KeyError)

#: Column → value.
Row = dict[str, Any]


class RowCommands:
    """Creates a command from each row of a Spark partition, in the order of the rows.

    `type_name`: the command type, as in `TopicOptions`; None: a column has the type. `id_prefix`: the id of a command
    is this prefix and its row number; None: a column has the id. `bad_rows`: receives invalid rows; None: an invalid
    row is an error.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        type_name: str | None,
        id_prefix: str | None,
        bad_rows: BadRows | None = None,
    ) -> None:
        self._aggregate, self._id_prefix, self._bad_rows = aggregate, id_prefix, bad_rows
        self._wire_type = None if type_name is None else wire_type(aggregate, "commands", type_name)
        self._fields = [] if type_name is None else command_fields(aggregate, type_name)
        self._row_count = 0
        self._row: Row = {}  # the row of the command that `commands_of` has yielded last
        #: (error, row number, row) of commands that were not sent.
        self._failures: list[tuple[CqrsError, int, Row]] = []

    def commands_of(self, batch: "pyarrow.RecordBatch") -> Iterator[ReadyCommand]:
        """Yield the commands of the next rows. Without `bad_rows`, raises `UsageError` for an invalid row; the error
        contains its number and the column.
        """
        names = batch.schema.names
        invalid: dict[int, str] = {}
        columns = [_values(name, column, invalid) for name, column in zip(names, batch.columns, strict=True)]
        attributes = [name for name in ATTRIBUTES if name in names and name not in ("id", "subject")]
        for position, values in enumerate(zip(*columns, strict=True)):
            row = dict(zip(names, values, strict=True))
            if self._id_prefix is not None:
                row["id"] = f"{self._id_prefix}{self._row_count}"
            try:
                if position in invalid:
                    raise UsageError(invalid[position], _HINT)
                command = self._command(row, attributes)
            except UsageError as error:
                self._reject(self._row_count, row, error)
            else:
                self._row = row
                yield command
            self._row_count += 1

    def failure_handler(self) -> OnFailure:
        """Return the callback for a failed delivery of the command that `commands_of` has yielded last."""
        number, row = self._row_count, self._row
        return lambda error: self._failures.append((error, number, row))

    def reject_failures(self) -> None:
        """Handle the failed deliveries: a row whose command is too large for the topic is invalid, any other failure is
        raised.
        """
        for error, number, row in self._failures:
            if not isinstance(error, CommandTooLargeError):
                raise error
            self._reject(number, row, error)
        self._failures.clear()

    def _reject(self, number: int, row: Row, error: CqrsError) -> None:
        if self._bad_rows is None:
            raise UsageError(f"row {number}, id {row['id']!r}: {error.message}", error.hint) from None
        self._bad_rows.add(number, row, error.message)

    def _command(self, row: Row, attributes: list[str]) -> ReadyCommand:
        texts = {name: row[name] for name in attributes}
        if texts.get("expected") is not None:
            texts["expected"] = str(texts["expected"])
        _require(row, "id", "subject")
        name, data = self._type_and_data(row)
        return create_command(
            self._aggregate.name,
            row["subject"],
            name,
            data,
            SPARK_SOURCE,
            Attributes(id=row["id"], **texts),
            _COLUMN_NAMES,
        )

    def _type_and_data(self, row: Row) -> tuple[str, bytes]:
        """Return the wire type and the checked data of the command in a row."""
        if self._wire_type is None:
            _require(row, "type", DATA)
            name, data = wire_type(self._aggregate, "commands", row["type"]), row[DATA].encode()
        else:
            name, data = self._wire_type, encode_json(self._document(row))
        try:
            self._aggregate.decode_command[name](data)
        except (ValueError, RecursionError) as error:
            reason = self._aggregate.personal.redact_mismatch(
                str(error), self._aggregate.commands[name], data
            )
            raise UsageError(f"column {self._column_of(error)}: {reason}", _HINT) from None
        return name, data

    def _document(self, row: Row) -> dict[str, Any]:
        """Return the JSON document of the command in a row. If a field does not accept null, null in its column means
        that the field is omitted, so its default applies.
        """
        document = {}
        for field in self._fields:
            value = row.get(field.column)
            if value is not None:
                try:
                    document[field.name] = value if field.convert is None else field.convert(value)
                except RowValueError as error:
                    raise UsageError(f"column {field.column} {error}", _HINT) from None
                except (TypeError, AttributeError):
                    raise UsageError(f"column {field.column} has a type that the field cannot have") from None
            elif field.accepts_null and field.column in row:
                document[field.name] = None
            elif field.required:
                raise UsageError(f"column {field.column} is null", _HINT)
        return document

    def _column_of(self, error: Exception) -> str:
        """Return the column of the field in a decoder's error; the column `data` if the fields have no columns."""
        match = _MEMBER.search(str(error))
        names = {field.name: field.column for field in self._fields}
        return names.get(match[1], DATA) if match else DATA


def _values(name: str, column: "pyarrow.Array", invalid: dict[int, str]) -> list[Any]:
    """Return the values of a column. A value that Python cannot represent, such as a date after the year 9999, is
    replaced by Arrow's text of it, and is added to `invalid`: index in the batch → reason.
    """
    with suppress(*_UNREADABLE):
        return cast("list[Any]", column.to_pylist(maps_as_pydicts="strict"))
    values: list[Any] = []
    for position, scalar in enumerate(column):
        try:
            values.append(scalar.as_py(maps_as_pydicts="strict"))
        except _UNREADABLE as error:
            invalid.setdefault(position, f"column {name}: {error}")
            values.append(column.slice(position, 1).to_string(skip_new_lines=True)[1:-1])
    return values


def _require(row: Row, *columns: str) -> None:
    for name in columns:
        if row[name] is None:
            raise UsageError(f"column {name} is null", _HINT)
