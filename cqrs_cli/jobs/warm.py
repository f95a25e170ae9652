"""The job of `cqrs warm`: it starts Spark, whose JVM loads the classes that jobs use, and archives them at its exit."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.session import dataframes, session
from cqrs_cli.jobs.engine.spark_archive import (
    DRIVER_OPTIONS,
    EXECUTOR_OPTIONS,
    executor_archive,
    quote_options,
    spark_archive,
)
from cqrs_cli.runs.session_log import session_log
from cqrs_cli.system.class_archive import WRITE_TIMEOUT
from cqrs_cli.system.process import start_time, terminate

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer
    from pyspark import SparkContext

_NAME = "cqrs warm"
_MEMORY = 1024  # MiB of an executor: Spark's default


def warm_spark(java: Path, report: Callable[[str], None]) -> Path:
    """Write the class data archive of Spark's driver for this `java`, if there is none; return its path.

    Raises the errors of `ClassArchive.write` and of a session.
    """
    return spark_archive(java).write(_run_driver_once, report)


def warm_executors(java: Path, report: Callable[[str], None]) -> Path:
    """Write the class data archive of a cluster's executors for this `java`, if there is none; return its path.

    Raises the errors of `ClassArchive.write` and of a session.
    """
    return executor_archive(java).write(partial(_run_executor_once, java), report)


def _run_driver_once(options: Sequence[str]) -> None:
    conf = {DRIVER_OPTIONS: quote_options(options)}
    with (
        TemporaryDirectory() as folder,
        session("local[1]", conf, Path(folder) / "warm.log", _NAME) as context,
    ):
        _load_classes(context)


def _load_classes(context: "SparkContext") -> None:
    """Make the JVM load the classes that jobs use: tasks in Python, and queries."""
    context.parallelize([1], 1).map(str).count()
    dataframes(context).range(1).selectExpr("sum(id)").collect()


def _run_executor_once(java: Path, options: Sequence[str]) -> None:
    conf = {EXECUTOR_OPTIONS: quote_options(options)}
    with TemporaryDirectory() as name:
        folder = Path(name)
        with (
            session_log(folder / "cluster.log") as (log, output),
            jvm.running_jvm(java, {}, log, output, is_local=True) as cluster_jvm,
            session(_start_cluster(cluster_jvm, folder), conf, folder / "warm.log", _NAME) as context,
        ):
            context.parallelize([1], 1).map(str).count()
            children = cluster_jvm.jvm.java.lang.ProcessHandle.current().children().toList()
            start_times = {child.pid(): start_time(child.pid()) for child in children}
        # An executor writes the archive when it exits. By now the cluster's worker is gone: it would have killed an
        # executor whose exit takes more than ten seconds.
        for pid, process_start in start_times.items():
            if process_start is not None:
                terminate(pid, process_start, WRITE_TIMEOUT)


def _start_cluster(cluster_jvm: "ClientServer", folder: Path) -> str:
    """Start a standalone cluster with one worker in this JVM; return the master's URL. The worker works in `folder`.

    Spark's own LocalSparkCluster would write into the folder in which PySpark is installed.
    """
    spark, none = cluster_jvm.jvm.org.apache.spark, cluster_jvm.jvm.scala.Option.empty()
    conf, address = spark.SparkConf(), "127.0.0.1"
    master = (
        spark.deploy.master.Master.startRpcEnvAndEndpoint(address, 0, 0, conf)._1().address().toSparkURL()
    )
    masters = cluster_jvm.new_array(cluster_jvm.jvm.String, 1)
    masters[0] = master
    spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
        address, 0, 0, 1, _MEMORY, masters, str(folder), none, conf, none
    )
    return str(master)
