"""Spark's Python workers use the installed PySpark, and share the modules that their daemon has loaded."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.jobs.engine.daemon import remove_archives

if TYPE_CHECKING:
    from pyspark import SparkContext

#: The daemon, with its loop replaced.
DAEMON_PROGRAM = """
import sys, threading
from pathlib import Path
import pyspark.daemon
from cqrs_cli.jobs.engine.daemon import fork_workers
pyspark.daemon.manager = lambda: None
fork_workers()
native = len(list(Path("/proc/self/task").iterdir())) if sys.platform == "linux" else 1
print(threading.active_count(), native, "cqrs_cli.runs.task" in sys.modules, "pyspark.worker" in sys.modules)
"""


def archives(pyspark_folder: Path) -> list[str]:
    """Return the archives that Spark puts first on the path of its workers."""
    return [str(pyspark_folder / "python/lib/pyspark.zip"), str(pyspark_folder / "jars/spark-core.jar")]


def worker_modules(_: Iterable[int]) -> list[tuple[str, bool, list[str]]]:
    """In a worker, return its PySpark, whether the daemon's modules are loaded, and Spark's archives on its path."""
    import pyspark

    pyspark_folder = Path(pyspark.__file__).parent
    paths = [entry for entry in sys.path if pyspark_folder in Path(entry).parents]
    return [(pyspark.__file__, "cqrs_cli.runs.task" in sys.modules, paths)]


@pytest.mark.spark
def test_workers_take_the_installed_pyspark(spark: "SparkContext") -> None:
    import pyspark

    assert spark.parallelize([1], 1).mapPartitions(worker_modules).collect() == [(pyspark.__file__, True, [])]


@pytest.mark.program
def test_daemon_modules_start_no_thread() -> None:
    """A forked process would not have the thread."""
    process = subprocess.run(
        [sys.executable, "-c", DAEMON_PROGRAM], stdout=subprocess.PIPE, text=True, check=True
    )
    assert process.stdout.split() == ["1", "1", "True", "True"]


def test_archives_of_installed_pyspark_are_removed() -> None:
    import pyspark

    assert remove_archives([*archives(Path(pyspark.__file__).parent), *sys.path]) == sys.path


def test_archives_of_another_spark_stay(tmp_path: Path) -> None:
    path = [*archives(tmp_path), *sys.path]
    assert remove_archives(path) == path


def test_archives_stay_without_installed_pyspark(tmp_path: Path) -> None:
    path = [*archives(tmp_path), str(tmp_path)]
    assert remove_archives(path) == path
