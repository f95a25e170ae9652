"""Spark's Python workers use the installed PySpark, and share the modules that their daemon has loaded."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.jobs.engine.daemon import without_archives

if TYPE_CHECKING:
    from pyspark import SparkContext

#: The daemon, with its loop replaced.
ALONE = """
import sys, threading
from pathlib import Path
import pyspark.daemon
from cqrs_cli.jobs.engine.daemon import fork_workers
pyspark.daemon.manager = lambda: None
fork_workers()
native = len(list(Path("/proc/self/task").iterdir())) if sys.platform == "linux" else 1
print(threading.active_count(), native, "cqrs_cli.runs.task" in sys.modules, "pyspark.worker" in sys.modules)
"""


def archives(home: Path) -> list[str]:
    """Return the archives that Spark puts first on the path of its workers."""
    return [str(home / "python/lib/pyspark.zip"), str(home / "jars/spark-core.jar")]


def loaded(_: Iterable[int]) -> list[tuple[str, bool, list[str]]]:
    """In a worker, return its PySpark, whether the daemon's modules are loaded, and Spark's archives on its path."""
    import pyspark

    home = Path(pyspark.__file__).parent
    paths = [place for place in sys.path if home in Path(place).parents]
    return [(pyspark.__file__, "cqrs_cli.runs.task" in sys.modules, paths)]


@pytest.mark.spark
def test_workers_take_the_installed_pyspark(spark: "SparkContext") -> None:
    import pyspark

    assert spark.parallelize([1], 1).mapPartitions(loaded).collect() == [(pyspark.__file__, True, [])]


@pytest.mark.program
def test_what_is_loaded_starts_no_thread() -> None:
    """A forked process would not have the thread."""
    process = subprocess.run([sys.executable, "-c", ALONE], stdout=subprocess.PIPE, text=True, check=True)
    assert process.stdout.split() == ["1", "1", "True", "True"]


def test_archives_of_the_installed_go() -> None:
    import pyspark

    assert without_archives([*archives(Path(pyspark.__file__).parent), *sys.path]) == sys.path


def test_archives_of_another_spark_stay(tmp_path: Path) -> None:
    path = [*archives(tmp_path), *sys.path]
    assert without_archives(path) == path


def test_archives_stay_where_none_is_installed(tmp_path: Path) -> None:
    path = [*archives(tmp_path), str(tmp_path)]
    assert without_archives(path) == path
