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

if TYPE_CHECKING:
    import pyarrow

#: The CloudEvents source of commands from rows.
SPARK_SOURCE = "/cqrs/spark"

_COLUMN_NAMES = ArgumentNames(
    "column subject", "column id", "column expected", "column correlation", "column "
)

#: The member in a message of msgspec: `amount` in "Expected `int`, got `str` - at `$.amount`".
_MEMBER = re.compile(r" - at `\$\.([^`.\[]+)")

_HINT = "correct the row, or filter it"

#: A row: the values by column.
Row = dict[str, Any]


class RowCommands:
    """Creates a command from each row of a Spark partition, in the order of the rows.

    `type_name`: see `TopicOptions`. `id_prefix`: the id of a command is this prefix and its row number; None: the
    ids are a column. `bad_rows` receives the invalid rows; None: an invalid row is an error.
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
        self._row: Row = {}  # of the command that `commands_of` yielded last
        self._failures: list[tuple[CqrsError, int, Row]] = []  # with the row numbers and rows of the commands

    def commands_of(self, batch: "pyarrow.RecordBatch") -> Iterator[ReadyCommand]:
        """Yield the commands of the next rows. Without `bad_rows`, raises `UsageError` for an invalid row, with its
        number and column.
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
        """Return a callback for a failure of the command that `commands_of` yielded last."""
        number, row = self._row_count, self._row
        return lambda error: self._failures.append((error, number, row))

    def reject_failures(self) -> None:
        """Treat the rows of commands that are too large for the topic as invalid; raise any other failure."""
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
        except ValueError as error:
            reason = self._aggregate.personal.redact_mismatch(
                str(error), self._aggregate.commands[name], data
            )
            raise UsageError(f"column {self._column_of(error)}: {reason}", _HINT) from None
        return name, data

    def _document(self, row: Row) -> dict[str, Any]:
        """Return the fields in a row, without null in a field that does not accept null: its default applies then."""
        document = {}
        for field in self._fields:
            value = row.get(field.column)
            if value is not None:
                try:
                    document[field.name] = value if field.convert is None else field.convert(value)
                except ValueError:
                    raise UsageError(f"column {field.column} is not JSON", _HINT) from None
            elif field.accepts_null and field.column in row:
                document[field.name] = None
            elif field.required:
                raise UsageError(f"column {field.column} is null", _HINT)
        return document

    def _column_of(self, error: ValueError) -> str:
        """Return the column that a decoder's error names; the column `data` if the fields are no columns."""
        match = _MEMBER.search(str(error))
        names = {field.name: field.column for field in self._fields}
        return names.get(match[1], DATA) if match else DATA


def _values(name: str, column: "pyarrow.Array", invalid: dict[int, str]) -> list[Any]:
    """Return the values of a column. A value that Python does not have, such as a date after the year 9999, becomes
    its text in Arrow, and the reason is added to `invalid`: position in the batch → reason.
    """
    with suppress(OverflowError, ValueError):
        return cast("list[Any]", column.to_pylist(maps_as_pydicts="strict"))
    values: list[Any] = []
    for position, scalar in enumerate(column):
        try:
            values.append(scalar.as_py(maps_as_pydicts="strict"))
        except (OverflowError, ValueError) as error:
            invalid.setdefault(position, f"column {name}: {error}")
            values.append(column.slice(position, 1).to_string(skip_new_lines=True)[1:-1])
    return values


def _require(row: Row, *columns: str) -> None:
    for name in columns:
        if row[name] is None:
            raise UsageError(f"column {name} is null", _HINT)
