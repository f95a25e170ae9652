"""Spark's JVM as a child of this process: it prints nothing, and exits whenever this process exits.

The JVM exits when its standard input closes, and the kernel closes this input even if this process is killed. The JVM's
Python workers exit when their own standard input closes. So no process is left behind, even if no cleanup runs here.
"""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.jobs.engine.spark_archive import DRIVER_OPTIONS
from cqrs_cli.system import java
from cqrs_cli.system.class_archive import AT_EXIT_OPTION, WRITE_TIMEOUT

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer
    from pyspark import SparkContext

#: Seconds from the close of a JVM's input until the JVM is killed.
EXIT_TIMEOUT = 10.0

#: Matches a message of the JVM or of spark-submit about a wrong argument; the group is its text without the prefix.
_ERROR_LINE = re.compile(
    r"^(?:Error: |Exception in thread [^:]*: |(?=Invalid )|\S+ \S+ ERROR \w+: )(.+)$", re.MULTILINE
)

#: The first words of a line such as `Picked up JAVA_TOOL_OPTIONS: …`, which a JVM prints but which is no error.
_OPTIONS_LINE_PREFIX = "Picked up "

#: Environment variables that the JVM must not inherit: settings of another Spark on this machine, and settings of
#: Python with which modules behave differently or fail. The settings of this Spark come from --conf.
_FOREIGN_VARIABLES = (
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "SPARK_LOCAL_DIRS",
    "SPARK_REMOTE",
    "PYTHONOPTIMIZE",
    "PYTHONWARNINGS",
)

#: py4j logs that a JVM has exited. The message is dropped, because an error reports the exit.
logging.getLogger("py4j").addHandler(logging.NullHandler())
logging.getLogger("py4j").propagate = False


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


# py4j logs a few messages to the root logger instead of its own, such as a traceback for Ctrl-C.
logging.getLogger().addFilter(_is_not_from_py4j)


@contextmanager
def running_jvm(
    java_path: Path, conf: Mapping[str, str], log: Path, output: int, is_local: bool
) -> Iterator["ClientServer"]:
    """Yield py4j's gateway to a new JVM; the JVM is stopped at the end of the block.

    `java_path`: the `java` program. `conf`: Spark's properties. `output`: the descriptor of the open
    file `log`, which gets the output of the JVM and of its workers. `is_local`: the driver and all executors are on
    this machine.

    Raises `ConfigurationError` for arguments that the JVM does not accept, `CqrsError` if the start fails for another
    reason.
    """
    timeout = WRITE_TIMEOUT if AT_EXIT_OPTION in conf.get(DRIVER_OPTIONS, "") else EXIT_TIMEOUT
    with _environment(is_local, java_path):
        gateway = _launch(conf, output, log)
        try:
            yield gateway
        finally:
            _stop(gateway, timeout)


def has_exited(context: "SparkContext", timeout: float = 0.0) -> bool:
    """True if the JVM has exited, or exits within `timeout` seconds. A caller whose connection to the JVM broke waits:
    the connections break shortly before the JVM exits.
    """
    assert context._gateway is not None
    try:
        context._gateway.proc.wait(timeout)
    except subprocess.TimeoutExpired:
        return False
    return True


def _launch(conf: Mapping[str, str], output: int, log: Path) -> "ClientServer":
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    # In a session of its own the JVM gets neither Ctrl-C nor other signals to the driver's process group: the driver
    # stops it.
    popen_options = {"stdout": output, "stderr": output, "start_new_session": True}
    launch_jvm: Callable[..., ClientServer] = launch_gateway
    with ThreadPoolExecutor(1) as pool:
        gateway = pool.submit(
            launch_jvm, SparkConf(loadDefaults=False).setAll(list(conf.items())), popen_kwargs=popen_options
        )
        try:
            # py4j's first call imports this module, and with it pandas, in 0.3 s. Imported here, it overlaps with the
            # JVM's start.
            import pyspark.testing.utils  # noqa: F401

            return gateway.result()
        except PySparkRuntimeError:
            raise start_error(log) from None
        # If the start were interrupted, the JVM would never exit. So wait until the JVM runs, then stop it.
        except KeyboardInterrupt:
            _stop(gateway.result())
            raise


def start_error(log: Path) -> CqrsError:
    """Return the error for a JVM that exited during its start, with the cause in the file `log` or the log's first
    line.
    """
    text = log.read_text(errors="replace")
    if cause := _ERROR_LINE.search(text):
        return ConfigurationError(
            f"Spark does not start: {cause[1]}", f"check --master and --conf; see {log}"
        )
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_OPTIONS_LINE_PREFIX)]
    reason = f": {lines[0].strip()}" if lines else ""
    return CqrsError(f"Spark's JVM ended while it started{reason}", f"see {log}")


def _stop(gateway: "ClientServer", timeout: float = EXIT_TIMEOUT) -> None:
    """Close the JVM's input and wait for its exit; kill the JVM after `timeout` seconds."""
    process: subprocess.Popen[bytes] = gateway.proc
    gateway.shutdown()
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _environment(is_local: bool, java_path: Path) -> Iterator[None]:
    """Set the environment variables that PySpark and the JVM read, and restore them at the end of the block.

    PySpark then starts the program `java_path`.
    """
    import pyspark

    variables: dict[str, str | None] = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),  # not another Spark on this machine
        "PYSPARK_PYTHON": sys.executable,  # the default is the `python3` of PATH
        **dict.fromkeys(_FOREIGN_VARIABLES),
        "PYTHONHASHSEED": "0",  # sets have the same order in every worker
        "PYTHONSAFEPATH": "1",  # a file in the current folder must not shadow a module of the standard library
        **java.spark_environment(java_path),
    }
    if is_local:
        # Spark does not look up this machine's name, and opens no port to the network.
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    previous_values = {name: os.environ.get(name) for name in variables}
    _set_environment(variables)
    try:
        yield
    finally:
        _set_environment(previous_values)


def _set_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
