"""Writes the rows of a Spark job to a folder, which appears complete or not at all."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.jobs.engine.session import dataframes

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.types import StructType

#: The formats of output files. For `json` and `jsonl`, Spark gets each row as a whole line, with the schema `LINES`.
FileFormat = Literal["parquet", "json", "jsonl", "csv"]
LINES = "line string"

#: Runs on a worker, and maps Arrow batches of partition numbers to Arrow batches of these partitions' rows.
Rows = Callable[[Iterator[Any]], Iterator[Any]]

#: Writes the rows of all partitions: `write(partition_count, rows, schema)`.
Write = Callable[[int, Rows, "StructType | str"], None]


class Target(NamedTuple):
    """The folder for the output, and the format of its files: `Target("/tmp/out", "parquet")`.

    `folder`: an absolute path, or a URL of a file system that Spark knows.
    """

    folder: str
    format: FileFormat


@contextmanager
def staged_writer(context: "SparkContext", target: Target) -> Iterator[Write]:
    """Yield a function that writes rows to a temporary folder next to the target. The folder is renamed to the target
    at the end of the block; after an error the target is unchanged.

    Raises `UsageError` if the target is not empty, `ConfigurationError` if it cannot be written.
    """
    with staging_folder(context, target) as stage:
        yield lambda partitions, rows, schema: _write(context, stage, target, partitions, rows, schema)
        if target.format != "parquet":
            java: Any = context._jvm
            folder = java.org.apache.hadoop.fs.Path(stage)
            file_system = folder.getFileSystem(context._jsc.hadoopConfiguration())
            _rename_text_files(java, file_system, folder, target.format)


@contextmanager
def staging_folder(context: "SparkContext", target: Target) -> Iterator[str]:
    """Yield a temporary folder next to the target, which is renamed to the target at the end of the block.

    Raises the same errors as `staged_writer`.
    """
    from py4j.protocol import Py4JJavaError

    java: Any = context._jvm
    path = java.org.apache.hadoop.fs.Path(target.folder)
    stage = java.org.apache.hadoop.fs.Path(f"{target.folder.rstrip('/')}.partial-{uuid.uuid4().hex[:8]}")
    try:
        file_system = path.getFileSystem(context._jsc.hadoopConfiguration())
        check_empty(target.folder, file_system.exists(path) and bool(len(file_system.listStatus(path))))
        if not file_system.mkdirs(stage):
            raise _unwritable_error(target, f"cannot create {stage}")
    except Py4JJavaError as error:
        raise _unwritable_error(target, error.java_exception.getMessage()) from error
    try:
        yield str(stage)
        try:
            file_system.delete(path, False)  # not recursive: another job may have filled the folder since
            is_renamed = file_system.rename(stage, path)
        except Py4JJavaError as error:
            raise _unwritable_error(target, error.java_exception.getMessage()) from error
        if not is_renamed:
            raise _unwritable_error(target, f"cannot rename {stage}")
    finally:
        file_system.delete(stage, True)


def check_empty(folder: str, has_files: bool) -> None:
    """Raise `UsageError` if the folder has files."""
    if has_files:
        raise UsageError(
            f"{folder} exists and is not empty", "name a new folder after --out, or remove this one"
        )


def _write(
    context: "SparkContext",
    folder: str,
    target: Target,
    partition_count: int,
    rows: Rows,
    schema: "StructType | str",
) -> None:
    spark = dataframes(context)
    # Spark's default is Hive's old format (INT96), which has no time zone.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows_frame = spark.range(0, partition_count, 1, partition_count).mapInArrow(rows, schema)
    rows_frame.write.mode("overwrite").format("parquet" if target.format == "parquet" else "text").save(
        folder
    )


def _rename_text_files(java: Any, file_system: Any, stage: Any, extension: str) -> None:
    """Give the files in the folder `stage` the extension of their format; Spark's text writer has named them .txt."""
    for status in file_system.listStatus(stage):
        name = str(status.getPath().getName())
        if name.endswith(".txt"):
            new_path = java.org.apache.hadoop.fs.Path(stage, f"{name.removesuffix('.txt')}.{extension}")
            file_system.rename(status.getPath(), new_path)


def _unwritable_error(target: Target, reason: str) -> ConfigurationError:
    return ConfigurationError(f"cannot write {target.folder}: {reason}", "name another folder after --out")
