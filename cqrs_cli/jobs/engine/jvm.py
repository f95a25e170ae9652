"""Spark's JVM as a child of this process: it prints nothing, and ends when this process ends in any way.

The JVM ends itself when its standard input closes, which the kernel does for a killed driver too; its Python workers
end with it by the same rule. So nothing here has to run for nothing to be left behind.
"""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.jobs.engine.spark_archive import DRIVER_OPTIONS
from cqrs_cli.storage.private import PRIVATE_FILE, PRIVATE_FOLDER, opener
from cqrs_cli.system import java
from cqrs_cli.system.class_archive import AT_EXIT, WRITE_WITHIN

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer
    from pyspark import SparkContext

#: Seconds that a JVM gets to end after its input has closed, before it is killed.
END_WITHIN = 10.0

#: The messages of the JVM and spark-submit about wrong arguments.
_CAUSE = re.compile(r"^(?:Error: |Exception in thread [^:]*: |(?=Invalid ))(.+)$", re.MULTILINE)

#: py4j logs that a JVM went away; the error that follows reports it already.
logging.getLogger("py4j").addHandler(logging.NullHandler())
logging.getLogger("py4j").propagate = False


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


# py4j logs a few things, Ctrl-C with a traceback among them, to the root logger instead of its own.
logging.getLogger().addFilter(_is_not_py4js)


@contextmanager
def started(chosen: Path, conf: Mapping[str, str], log: Path, loopback: bool) -> Iterator["ClientServer"]:
    """A gateway to a new JVM of the `chosen` Java, which is ended with the block.

    Its output and its workers' go to `log`, emptied first. Raises `ConfigurationError` for arguments that it refuses or
    a log that cannot be written, `CqrsError` when it does not come up for another reason.
    """
    within = WRITE_WITHIN if AT_EXIT in conf.get(DRIVER_OPTIONS, "") else END_WITHIN
    with _environment(loopback, chosen), _opened(log) as output:
        gateway = _launched(conf, output, log)
        try:
            yield gateway
        finally:
            _end(gateway, within)


def is_gone(context: "SparkContext", within: float = 0.0) -> bool:
    """True if the context's JVM has ended, or does so within some seconds: its connections break first."""
    assert context._gateway is not None
    try:
        context._gateway.proc.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def _launched(conf: Mapping[str, str], output: int, log: Path) -> "ClientServer":
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    # A session of its own: Ctrl-C and signals to the process group reach the driver alone; it ends the rest in order.
    how = {"stdout": output, "stderr": output, "start_new_session": True}
    launch: Callable[..., ClientServer] = launch_gateway
    with ThreadPoolExecutor(1) as pool:
        gateway = pool.submit(
            launch, SparkConf(loadDefaults=False).setAll(list(conf.items())), popen_kwargs=how
        )
        try:
            # py4j's first call would import this, and with it pandas: 0.3 s. While the JVM starts there is time for it.
            import pyspark.testing.utils  # noqa: F401

            return gateway.result()
        except PySparkRuntimeError:
            raise _ended(log) from None
        except KeyboardInterrupt:  # a JVM whose start is cut off would never end: let it come up, then end it
            _end(gateway.result())
            raise


def _ended(log: Path) -> CqrsError:
    """The error for a JVM that ended while it started, with the cause if its log names one."""
    cause = _CAUSE.search(log.read_text(errors="replace"))
    if cause is None:
        return CqrsError("Spark's JVM ended while it started", f"see {log}")
    return ConfigurationError(f"Spark does not start: {cause[1]}", f"check --master and --conf; see {log}")


def _end(gateway: "ClientServer", within: float = END_WITHIN) -> None:
    """Close the JVM's input and wait; kill it when that is not enough."""
    process: subprocess.Popen[bytes] = gateway.proc
    gateway.shutdown()
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _environment(loopback: bool, chosen: Path) -> Iterator[None]:
    """Set the variables that PySpark reads, until the session ends. It starts the `chosen` Java."""
    import pyspark

    ours: dict[str, str | None] = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),  # not that of another Spark on this machine
        "PYSPARK_PYTHON": sys.executable,  # otherwise workers start the `python3` of PATH
        "PYSPARK_SUBMIT_ARGS": None,
        "PYTHONHASHSEED": "0",  # sets iterate alike in every worker
        "PYTHONSAFEPATH": "1",  # a worker takes no module for the standard library's that lies in the current folder
        **java.spark_environment(chosen),
    }
    if loopback:
        ours["SPARK_LOCAL_IP"] = "127.0.0.1"  # no look-up of this machine's name, nothing open to the network
    before = {name: os.environ.get(name) for name in ours}
    _set(ours)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _opened(log: Path) -> Iterator[int]:
    try:
        log.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        output = opener(str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC)
        with suppress(PermissionError):  # it is somebody else's
            log.chmod(PRIVATE_FILE)  # one that was made before this rule, too
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {log}: {error.strerror or error}", "make it writable"
        ) from error
    try:
        yield output
    finally:
        os.close(output)
