"""The job of `cqrs warm`: a Spark that loads what jobs load, and writes its classes into the archive when it ends."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cqrs_cli.jobs.engine.session import dataframes, session
from cqrs_cli.jobs.engine.spark_archive import DRIVER_OPTIONS, spark_archive, spark_words

if TYPE_CHECKING:
    from pyspark import SparkContext


def warm_spark(java: Path, note: Callable[[str], None]) -> Path:
    """Write Spark's archive for this `java`, where there is none; its path.

    Raises what `ClassArchive.write` and a session raise.
    """
    return spark_archive(java).write(_live, note)


def _live(options: Sequence[str]) -> None:
    with (
        TemporaryDirectory() as folder,
        session(
            "local[1]", {DRIVER_OPTIONS: spark_words(options)}, Path(folder) / "warm.log", "cqrs warm"
        ) as context,
    ):
        _load(context)


def _load(context: "SparkContext") -> None:
    """Have the JVM load what jobs load: tasks in Python, and queries."""
    context.parallelize([1], 1).map(str).count()
    dataframes(context).range(1).selectExpr("sum(id)").collect()
