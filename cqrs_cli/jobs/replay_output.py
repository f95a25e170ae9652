"""Where a replay writes its aggregates: a folder that is there whole or not at all."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.jobs.replay_task import Plan, fold_partition
from cqrs_cli.jobs.spark import dataframes

if TYPE_CHECKING:
    import pyarrow
    from pyspark import SparkContext

SCHEMA = "id string, version long, time string, state string"

#: Aggregates handed to Spark at once.
BATCH = 10_000

#: Called with the number of partitions and what a task does with their numbers: writes the rows that this gives.
Write = Callable[[int, Callable[[Iterator[Any]], Iterator[Any]]], None]


class Target(NamedTuple):
    """A folder by an absolute path, or by a URL of a file system that Spark knows."""

    folder: str
    format: Literal["parquet", "json"]


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
    plan: Plan, shares: Any, numbers: "Iterator[pyarrow.RecordBatch]"
) -> "Iterator[pyarrow.RecordBatch]":
    """What Spark runs on a worker: partition numbers in, their aggregates out; the shares go to the accumulator."""
    import pyarrow

    for batch in numbers:
        for partition in batch.column(0).to_pylist():
            folding, share = fold_partition(plan, partition)
            shares.add({partition: share})
            remaining = folding.rows() if folding is not None else iter(())
            while some := list(islice(remaining, BATCH)):
                ids, versions, times, states = zip(*some, strict=True)
                columns = [
                    pyarrow.array(ids, pyarrow.string()),
                    pyarrow.array(versions, pyarrow.int64()),
                    pyarrow.array(times, pyarrow.string()),
                    pyarrow.array([state.decode() for state in states], pyarrow.string()),
                ]
                yield pyarrow.RecordBatch.from_arrays(columns, ["id", "version", "time", "state"])


def _write(
    context: "SparkContext",
    folder: str,
    format: str,
    partitions: int,
    rows: Callable[[Iterator[Any]], Iterator[Any]],
) -> None:
    numbers = dataframes(context).range(0, partitions, 1, partitions)
    numbers.mapInArrow(rows, SCHEMA).write.mode("overwrite").format(format).save(folder)


def _unwritable(target: Target, reason: str) -> ConfigurationError:
    return ConfigurationError(f"cannot write {target.folder}: {reason}", "name another folder after --out")
