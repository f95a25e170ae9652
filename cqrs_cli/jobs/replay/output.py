"""Writing the aggregates of a replay to a folder, which appears complete or not at all."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Raw

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.jobs.engine.session import dataframes
from cqrs_cli.jobs.replay.fold import AggregateRow
from cqrs_cli.jobs.replay.task import ReplayPlan, replay_partition

if TYPE_CHECKING:
    import pyarrow
    from pyspark import SparkContext

Format = Literal["parquet", "json"]

#: The rows given to Spark and its writer for them. JSON is given as whole lines: Spark's own writer would make the
#: state a string.
SCHEMAS = {
    "parquet": ("id string, version long, time string, state string", "parquet"),
    "json": ("line string", "text"),
}

#: Aggregates given to Spark at once.
ROWS_PER_BATCH = 10_000

#: Writes the rows of all partitions: called with their number and a function from partition numbers to rows.
Write = Callable[[int, Callable[[Iterator[Any]], Iterator[Any]]], None]


class Target(NamedTuple):
    """A folder by an absolute path, or by a URL of a file system that Spark knows."""

    folder: str
    format: Format


@contextmanager
def staged(context: "SparkContext", target: Target) -> Iterator[Write]:
    """Write next to the target and put it in place at the end; after an error the target is as it was.

    Raises `UsageError` when the target is not empty, `ConfigurationError` when it cannot be written.
    """
    from py4j.protocol import Py4JJavaError

    java: Any = context._jvm
    path = java.org.apache.hadoop.fs.Path(target.folder)
    stage = java.org.apache.hadoop.fs.Path(f"{target.folder.rstrip('/')}.partial-{uuid.uuid4().hex[:8]}")
    try:
        files = path.getFileSystem(context._jsc.hadoopConfiguration())
        refuse_full(target.folder, files.exists(path) and bool(len(files.listStatus(path))))
        if not files.mkdirs(stage):
            raise _unwritable(target, f"cannot create {stage}")
    except Py4JJavaError as error:
        raise _unwritable(target, error.java_exception.getMessage()) from error
    try:
        yield lambda partitions, rows: _write(context, str(stage), target.format, partitions, rows)
        if target.format == "json":
            _rename_to_json(java, files, stage)
        try:
            files.delete(path, False)  # not a folder that another replay has filled meanwhile
            renamed = files.rename(stage, path)
        except Py4JJavaError as error:
            raise _unwritable(target, error.java_exception.getMessage()) from error
        if not renamed:
            raise _unwritable(target, f"cannot rename {stage}")
    finally:
        files.delete(stage, True)


def refuse_full(folder: str, is_full: bool) -> None:
    """Raise `UsageError` for a folder that is not empty."""
    if is_full:
        raise UsageError(
            f"{folder} exists and is not empty", "name a new folder after --out, or remove this one"
        )


def aggregate_rows(
    plan: ReplayPlan, results: Any, format: Format, numbers: "Iterator[pyarrow.RecordBatch]"
) -> "Iterator[pyarrow.RecordBatch]":
    """The task on a worker: partition numbers in, their aggregates out; the results go to the accumulator."""
    columns = _columns if format == "parquet" else _lines
    for batch in numbers:
        for partition in batch.column(0).to_pylist():
            fold, result = replay_partition(plan, partition)
            results.add({partition: result})
            remaining = fold.rows() if fold is not None else iter(())
            while some := list(islice(remaining, ROWS_PER_BATCH)):
                yield columns(some)


def _columns(some: list[AggregateRow]) -> "pyarrow.RecordBatch":
    import pyarrow

    ids, versions, times, states = zip(*some, strict=True)
    columns = [
        pyarrow.array(ids, pyarrow.string()),
        pyarrow.array(versions, pyarrow.int64()),
        pyarrow.array(times, pyarrow.string()),
        pyarrow.array([state.decode() for state in states], pyarrow.string()),
    ]
    return pyarrow.RecordBatch.from_arrays(columns, ["id", "version", "time", "state"])


def _lines(some: list[AggregateRow]) -> "pyarrow.RecordBatch":
    import pyarrow

    lines = [
        encode_json({"id": id, "version": version, "time": time, "state": Raw(state)}).decode()
        for id, version, time, state in some
    ]
    return pyarrow.RecordBatch.from_arrays([pyarrow.array(lines, pyarrow.string())], ["line"])


def _write(
    context: "SparkContext",
    folder: str,
    format: Format,
    partitions: int,
    rows: Callable[[Iterator[Any]], Iterator[Any]],
) -> None:
    schema, writer = SCHEMAS[format]
    numbers = dataframes(context).range(0, partitions, 1, partitions)
    numbers.mapInArrow(rows, schema).write.mode("overwrite").format(writer).save(folder)


def _rename_to_json(java: Any, files: Any, stage: Any) -> None:
    """Rename .txt to .json: Spark's text writer names its files .txt."""
    for status in files.listStatus(stage):
        name = str(status.getPath().getName())
        if name.endswith(".txt"):
            files.rename(
                status.getPath(), java.org.apache.hadoop.fs.Path(stage, f"{name.removesuffix('.txt')}.json")
            )


def _unwritable(target: Target, reason: str) -> ConfigurationError:
    return ConfigurationError(f"cannot write {target.folder}: {reason}", "name another folder after --out")
