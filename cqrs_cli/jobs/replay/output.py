"""Where a replay writes its aggregates: a folder that is there whole or not at all."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Raw

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.jobs.engine.session import dataframes
from cqrs_cli.jobs.replay.fold import Row
from cqrs_cli.jobs.replay.task import ReplayPlan, fold_partition

if TYPE_CHECKING:
    import pyarrow
    from pyspark import SparkContext

Format = Literal["parquet", "json"]

#: What Spark is handed and how it writes that. JSON comes as whole lines: Spark's own would hold the state as text.
WRITTEN = {
    "parquet": ("id string, version long, time string, state string", "parquet"),
    "json": ("line string", "text"),
}

#: Aggregates handed to Spark at once.
BATCH = 10_000

#: Called with the number of partitions and what a task does with their numbers: writes the rows that this gives.
Write = Callable[[int, Callable[[Iterator[Any]], Iterator[Any]]], None]


class Target(NamedTuple):
    """A folder by an absolute path, or by a URL of a file system that Spark knows."""

    folder: str
    format: Format


@contextmanager
def staged(context: "SparkContext", target: Target) -> Iterator[Write]:
    """Writing beside the target, which is put in place at the end, and left as it was after an error.

    Raises `UsageError` when the target holds something, `ConfigurationError` when it cannot be written.
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
            _call_json(java, files, stage)
        files.delete(path, False)
        if not files.rename(stage, path):
            raise _unwritable(target, f"cannot rename {stage}")
    finally:
        files.delete(stage, True)


def refuse_full(folder: str, holds_something: bool) -> None:
    """Raise `UsageError` rather than write among what is there."""
    if holds_something:
        raise UsageError(
            f"{folder} exists and is not empty", "name a new folder after --out, or remove this one"
        )


def rows(
    plan: ReplayPlan, shares: Any, format: Format, numbers: "Iterator[pyarrow.RecordBatch]"
) -> "Iterator[pyarrow.RecordBatch]":
    """What Spark runs on a worker: partition numbers in, their aggregates out; the shares go to the accumulator."""
    columns = _columns if format == "parquet" else _lines
    for batch in numbers:
        for partition in batch.column(0).to_pylist():
            folding, share = fold_partition(plan, partition)
            shares.add({partition: share})
            remaining = folding.rows() if folding is not None else iter(())
            while some := list(islice(remaining, BATCH)):
                yield columns(some)


def _columns(some: list[Row]) -> "pyarrow.RecordBatch":
    import pyarrow

    ids, versions, times, states = zip(*some, strict=True)
    columns = [
        pyarrow.array(ids, pyarrow.string()),
        pyarrow.array(versions, pyarrow.int64()),
        pyarrow.array(times, pyarrow.string()),
        pyarrow.array([state.decode() for state in states], pyarrow.string()),
    ]
    return pyarrow.RecordBatch.from_arrays(columns, ["id", "version", "time", "state"])


def _lines(some: list[Row]) -> "pyarrow.RecordBatch":
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
    schema, writer = WRITTEN[format]
    numbers = dataframes(context).range(0, partitions, 1, partitions)
    numbers.mapInArrow(rows, schema).write.mode("overwrite").format(writer).save(folder)


def _call_json(java: Any, files: Any, stage: Any) -> None:
    """Spark's text has names that end in .txt."""
    for status in files.listStatus(stage):
        name = str(status.getPath().getName())
        if name.endswith(".txt"):
            files.rename(
                status.getPath(), java.org.apache.hadoop.fs.Path(stage, f"{name.removesuffix('.txt')}.json")
            )


def _unwritable(target: Target, reason: str) -> ConfigurationError:
    return ConfigurationError(f"cannot write {target.folder}: {reason}", "name another folder after --out")
