"""A Spark standalone cluster on loopback: a master and workers, from the installed PySpark.

A worker has memory for two executors, so one executor can replace another that was lost with its worker.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from cqrs_cli.jobs.engine.spark_archive import spark_archive
from cqrs_cli.system.java import find_java, spark_environment
from tests.support.absent_broker import free_port
from tests.support.processes import process_tree
from tests.support.waiting import eventually

_PACKAGE = "org.apache.spark.deploy"


class Cluster:
    """A cluster. `master` is its URL; its workers are processes that a test may kill."""

    def __init__(self, master: str, start_worker: "Callable[[int], subprocess.Popen[bytes]]") -> None:
        self.master, self._start_worker = master, start_worker
        self.workers: list[subprocess.Popen[bytes]] = []

    def join(self) -> None:
        """Start another worker."""
        self.workers.append(self._start_worker(len(self.workers)))

    def worker_of(self, pid: int) -> int:
        """Return the number of the worker that started a process."""
        return next(number for number, worker in enumerate(self.workers) if pid in process_tree(worker.pid))

    def drain(self, number: int) -> None:
        """Notify a worker that its machine will leave, as Spark's own `decommission-worker.sh` does."""
        os.kill(self.workers[number].pid, signal.SIGPWR)

    def lose(self, number: int) -> None:
        """Kill a worker with all its processes, as a loss of its machine does."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait(30)


@contextmanager
def cluster(folder: Path, workers: int = 2, cores: int = 2) -> Iterator[Cluster]:
    """Run a cluster in `folder`, which has no aggregates, while the block lasts.

    `cores` is the number of slots per worker.
    """
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        log = stack.enter_context((folder / "cluster.log").open("wb"))
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        stack.enter_context(_process(folder, log.fileno(), f"{_PACKAGE}.master.Master", *arguments))
        eventually(lambda: _answers(port), within=30)

        def start_worker(number: int) -> "subprocess.Popen[bytes]":
            return stack.enter_context(
                _process(
                    folder,
                    log.fileno(),
                    f"{_PACKAGE}.worker.Worker",
                    *("--host", "127.0.0.1", "--cores", str(cores), "--memory", "3g", "--webui-port", "0"),
                    *("--work-dir", str(folder / f"worker{number}"), master),
                )
            )

        spark = Cluster(master, start_worker)
        for _ in range(workers):
            spark.join()
        yield spark


@contextmanager
def _process(folder: Path, log: int, main: str, *arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    home = Path(spec.origin).parent
    java = find_java()
    (first,) = home.glob("jars/slf4j-api-*.jar")  # Spark's order: the archive is for one class path
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",  # otherwise the worker searches for a build of Spark
        **spark_environment(java),  # also for the executors
    }
    process = subprocess.Popen(
        [
            *(str(java), *spark_archive(java).options, "-Xmx256m", "-Dspark.decommission.enabled=true"),
            *("-cp", f"{home}/conf:{first}:{home}/jars/*", main, *arguments),
        ],
        cwd=folder,
        env=environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
