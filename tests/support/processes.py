"""The operating system processes of a run: its driver, Spark's JVM, and the Python workers that run owners."""

from collections.abc import Iterable
from pathlib import Path

from cqrs_cli.jobs.engine.session import DAEMON


def process_tree(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    parents = {int(stat.parent.name): int(_fields(stat)[1]) for stat in Path("/proc").glob("[0-9]*/stat")}
    pids, old_count = {pid}, 0
    while len(pids) > old_count:
        old_count = len(pids)
        pids |= {child for child, parent in parents.items() if parent in pids}
    return pids


def living_processes(pids: Iterable[int]) -> set[int]:
    return {pid for pid in pids if _fields(Path(f"/proc/{pid}/stat"))[0] != "Z"}


def python_workers(pids: Iterable[int]) -> list[int]:
    """Return the workers that run tasks: the daemon's children.

    The JVM's command line also contains the daemon's name.
    """
    daemons = {pid for pid in pids if f"-m\0{DAEMON}".encode() in _command(pid)}
    return [pid for pid in daemons if parent_of(pid) in daemons]


def executors_of(worker: int) -> list[int]:
    """Return the executors of a standalone cluster's worker."""
    return [
        pid
        for pid in living_processes(process_tree(worker))
        if b"CoarseGrainedExecutorBackend" in _command(pid)
    ]


def parent_of(pid: int) -> int:
    return int(_fields(Path(f"/proc/{pid}/stat"))[1])


def spark_jvm(pids: Iterable[int]) -> int:
    """Return Spark's JVM: in local mode it is part of the driver and the only executor."""
    return next(pid for pid in pids if b"org.apache.spark.deploy.SparkSubmit" in _command(pid))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _fields(stat: Path) -> list[str]:
    """Return the fields of a stat file from the state on. A process that is gone looks like a zombie with parent 0."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", "0"]
