"""Python workers are forked from a process that has loaded everything, and has one thread."""

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark import SparkContext

#: The daemon, with something else in the place of its loop.
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


@pytest.mark.spark
def test_new_worker_knows_a_run(spark: "SparkContext") -> None:
    known = spark.parallelize(range(2), 2).map(lambda _: "cqrs_cli.runs.task" in sys.modules)
    assert known.collect() == [True, True]


def test_what_is_loaded_starts_no_thread() -> None:
    """A fork would lack it."""
    said = subprocess.run([sys.executable, "-c", ALONE], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout.split() == ["1", "1", "True", "True"]
