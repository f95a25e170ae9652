"""The aggregates of a replay as rows: either a column for each field of the state, or a line of JSON."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.engine.partition_job import with_shipped_code
from cqrs_cli.jobs.engine.staging import FileFormat
from cqrs_cli.scans.replay.fold import AggregateRow
from cqrs_cli.scans.replay.task import ReplayPlan, ReplayResult, fold_part, located_errors
from cqrs_cli.spark.arrow import field_array, time_array
from cqrs_cli.spark.field_types import FieldColumn, arrow_schema, field_columns

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

#: The names of the columns before the columns of the state's fields.
_KEY_COLUMNS = ("id", "version", "time")

#: The maximum number of aggregates in an Arrow batch for Spark.
ROWS_PER_BATCH = 10_000


def state_columns(state: type[msgspec.Struct]) -> list[FieldColumn]:
    """Return a column for each field of a state class. A field that is named like a key column gets a prefix:
    `state_id`.
    """
    return field_columns(state, frozenset(_KEY_COLUMNS), "state_{}")


def state_schema(state: type[msgspec.Struct]) -> "StructType":
    """Return the Parquet schema for aggregates with this state class."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

    key_fields = [
        StructField("id", StringType()),
        StructField("version", LongType()),
        StructField("time", TimestampType()),
    ]
    return StructType(
        [*key_fields, *(StructField(column.name, column.type) for column in state_columns(state))]
    )


def aggregate_rows(
    plan: ReplayPlan, results: Any, format: FileFormat, task_batches: "Iterator[pyarrow.RecordBatch]"
) -> "Iterator[pyarrow.RecordBatch]":
    """Map task numbers to the aggregates that these tasks fold, on a Spark worker. Add each task's result to the
    accumulator `results`.
    """
    for batch in task_batches:
        for task in batch.column(0).to_pylist():
            partition = plan.partition(task)
            fold, result = fold_part(with_shipped_code(plan), task)
            try:
                if fold is not None:
                    with located_errors(plan, task), closing(fold):
                        columns = StateColumns(fold.aggregate.state) if format == "parquet" else None
                        fold_rows = fold.rows()
                        remaining_rows = (
                            fold_rows
                            if plan.with_personal_values
                            else redacted_rows(fold.aggregate, fold_rows)
                        )
                        while rows := list(islice(remaining_rows, ROWS_PER_BATCH)):
                            yield _json_lines(rows) if columns is None else columns.batch(rows)
                        result = ReplayResult(partition, fold.total())
            except CqrsError as error:
                result = ReplayResult(partition, error=error)
            results.add({task: result})


class StateColumns:
    """Converts aggregates to Arrow batches of columns."""

    def __init__(self, state: type[msgspec.Struct]) -> None:
        self._columns = state_columns(state)
        self._schema = arrow_schema(state_schema(state))

    def batch(self, rows: list[AggregateRow]) -> "pyarrow.RecordBatch":
        """Return these aggregates as columns; raises `CqrsError`, with the aggregate's id, for a state that does not
        fit its columns.
        """
        import pyarrow

        states: list[State] = [row.decoded for row in rows]
        arrays = [
            pyarrow.array([row.id for row in rows], pyarrow.string()),
            pyarrow.array([row.version for row in rows], pyarrow.int64()),
            time_array(row.time for row in rows),
        ]
        for column, arrow_type in zip(self._columns, self._schema.types[len(_KEY_COLUMNS) :], strict=True):
            arrays.append(
                field_array(column, states, arrow_type, lambda number: f"the state of {rows[number].id!r}")
            )
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)


def redacted_rows(aggregate: Aggregate, rows: Iterable[AggregateRow]) -> Iterator[AggregateRow]:
    """Yield the rows with redacted personal fields.

    Decoding has redacted the encrypted values only. Values that were written before their field was annotated as
    personal are not encrypted.
    """
    for row in rows:
        state = aggregate.personal.redact(row.decoded)
        yield row if state is row.decoded else row._replace(state=encode_json(state), decoded=state)


def _json_lines(rows: list[AggregateRow]) -> "pyarrow.RecordBatch":
    """Return an Arrow batch in which each aggregate is a line of JSON."""
    import pyarrow

    lines = [
        encode_json(
            {"id": row.id, "version": row.version, "time": row.time, "state": Raw(row.state)}
        ).decode()
        for row in rows
    ]
    return pyarrow.RecordBatch.from_arrays([pyarrow.array(lines, pyarrow.string())], ["line"])
