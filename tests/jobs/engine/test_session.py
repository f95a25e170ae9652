"""The Spark session: quiet, on loopback, and gone when its driver is gone, however the driver ends."""

import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError, UsageError
from cqrs_cli.jobs.engine.jvm import start_error
from cqrs_cli.jobs.engine.session import (
    FIXED_PROPERTIES,
    LOG_PROPERTY,
    session,
    ship_archive,
    spark_failure,
    worker_log,
)
from cqrs_cli.jobs.engine.slots import wait_for_slots
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext

#: A driver whose only task writes the pids of worker, daemon and JVM, and then never ends.
HANGING_DRIVER = """
import sys
from pathlib import Path
from cqrs_cli.jobs.engine.session import session

def hang(pids):
    import os, time
    daemon = os.getppid()
    jvm = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
    pids.with_suffix(".new").write_text(f"{os.getpid()} {daemon} {jvm}")
    pids.with_suffix(".new").rename(pids)
    while True:
        time.sleep(0.1)

with session("local[1]", {}, Path(sys.argv[2]), "hangs") as context:
    context.parallelize([Path(sys.argv[1])], 1).foreach(hang)
"""

#: A driver that gets Ctrl-C while it waits for the JVM.
INTERRUPTED_DRIVER = """
import signal, sys, threading
from pathlib import Path
from cqrs_cli.jobs.engine.session import session

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with session("local[1]", {}, Path(sys.argv[1]), "interrupted") as context:
        threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
        context._jvm.java.lang.Thread.sleep(2_000)
except KeyboardInterrupt:
    print("interrupted")
"""

#: Two sessions, one after the other.
SESSION_PROGRAM = """
import sys
from pathlib import Path
from cqrs_cli.jobs.engine.session import session

for _ in range(2):
    with session("local[1]", {}, Path(sys.argv[1]), "tries") as context:
        print(context.parallelize([1, 2], 2).sum())
"""

#: Sessions that do not start.
FAILING_PROGRAM = """
import json, sys
from pathlib import Path
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.jobs.engine.session import session

for master, conf in json.loads(sys.argv[2]):
    try:
        with session(master, conf, Path(sys.argv[1]), "fails"):
            print("started")
    except ConfigurationError as error:
        print(error.message.splitlines()[0])
"""

#: (master, properties, the error)
START_ERRORS: list[tuple[str, dict[str, str], str]] = [
    ("nowhere", {}, "Spark does not start: Master must"),
    ("local[x]", {}, "Spark rejects the master local[x]: Could not parse"),
    ("local[1]", {"spark.driver.memory": "x"}, "Spark does not start: Invalid maximum heap size"),
    ("local[1]", {"spark.local.dir": "/proc/none"}, "Spark does not start: Failed to create"),
    ("local[1]", {"spark.task.cpus": "9"}, "Spark does not start: The number of cores"),
]


def run_python(code: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def start_hanging_driver(
    tmp_path: Path,
) -> Iterator[Callable[[], tuple["subprocess.Popen[bytes]", list[int]]]]:
    """Start a driver in its own process group, as a terminal does. Return it and the pids of its child processes."""
    pids = tmp_path / "pids"
    driver = subprocess.Popen(
        [sys.executable, "-c", HANGING_DRIVER, pids, tmp_path / "log"],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def start() -> tuple["subprocess.Popen[bytes]", list[int]]:
        eventually(pids.exists, within=90)
        return driver, [int(pid) for pid in pids.read_text().split()]

    yield start
    driver.kill()
    driver.wait()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "signal_number",
    [
        signal.SIGKILL,
        # `test_a_signal_leaves_nothing_running` sends the other signals to a demo.
        pytest.param(signal.SIGTERM, marks=pytest.mark.nightly),
        pytest.param(signal.SIGINT, marks=pytest.mark.nightly),
    ],
)
def test_stopped_driver_leaves_no_process(
    start_hanging_driver: Callable[[], tuple["subprocess.Popen[bytes]", list[int]]],
    signal_number: signal.Signals,
) -> None:
    driver, child_pids = start_hanging_driver()
    os.killpg(driver.pid, signal_number)
    driver.wait(30)
    assert eventually(lambda: not any(map(is_alive, child_pids)))


@pytest.mark.spark
@pytest.mark.slow
def test_two_sessions_in_one_process(tmp_path: Path) -> None:
    """Both sessions log to their file only, and ignore the variables of another Spark."""
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:1</value></property></configuration>"
    )
    variables = {
        "HADOOP_CONF_DIR": str(tmp_path),
        "SPARK_LOCAL_DIRS": "/proc/none",
        "PYSPARK_GATEWAY_PORT": "1",
        "PYTHONWARNINGS": "error",
    }
    log = tmp_path / "log" / "spark.log"
    process = run_python(SESSION_PROGRAM, log, **variables)
    assert (process.stdout, process.stderr, process.returncode) == ("3\n3\n", "", 0)
    assert "NativeCodeLoader" in log.read_text()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (log, log.parent)] == [0o600, 0o700]


@pytest.mark.spark
@pytest.mark.slow
def test_start_errors_of_spark_are_lines(tmp_path: Path) -> None:
    sessions = json.dumps([(master, conf) for master, conf, _ in START_ERRORS])
    process = run_python(FAILING_PROGRAM, tmp_path / "spark.log", sessions)
    lines = process.stdout.splitlines()
    assert len(lines) == len(START_ERRORS), process.stderr
    for line, (_, _, reason) in zip(lines, START_ERRORS, strict=True):
        assert line.startswith(reason)


@pytest.mark.spark
def test_unwritable_log_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    process = run_python(SESSION_PROGRAM, tmp_path / "file" / "spark.log")
    assert "ConfigurationError: cannot write" in process.stderr.splitlines()[-1]


@pytest.mark.parametrize("key", FIXED_PROPERTIES)
def test_fixed_settings_cannot_be_changed(tmp_path: Path, key: str) -> None:
    with (
        pytest.raises(UsageError, match=f"--conf {key}=other"),
        session("local[1]", {key: "other"}, tmp_path, "x"),
    ):
        pass


def test_missing_master_is_reported_at_once(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{listener.getsockname()[1]}"
        with (
            pytest.raises(UnavailableError, match=f"no Spark master at {url}"),
            session(url, {}, tmp_path, "x"),
        ):
            pass


@pytest.mark.spark
def test_local_master_names_its_slots(spark: "SparkContext") -> None:
    assert wait_for_slots(spark) == 2


@pytest.mark.spark
def test_workers_share_python_and_hashes(spark: "SparkContext") -> None:
    environments = spark.parallelize(range(4), 4).map(
        lambda _: (sys.executable, os.environ["PYTHONHASHSEED"])
    )
    assert set(environments.collect()) == {(sys.executable, "0")}


@pytest.mark.spark
@pytest.mark.covers("no-foreign-code")
def test_local_driver_requires_a_secret(spark: "SparkContext") -> None:
    """A local driver requires a secret. Otherwise it would read serialized objects from any user of the machine."""
    conf = spark.getConf()
    port, log = conf.get("spark.driver.port"), conf.get(LOG_PROPERTY)
    assert port is not None and log is not None
    body = b"\xac\xed serialized"
    one_way = struct.pack(">qBi", 8 + 1 + 4 + len(body), 9, len(body)) + body  # Spark's OneWayMessage
    with socket.create_connection(("127.0.0.1", int(port))) as stranger:
        stranger.sendall(one_way)
        eventually(lambda: "Unauthenticated call" in Path(log).read_text())


@pytest.mark.spark
def test_local_driver_listens_on_loopback(spark: "SparkContext") -> None:
    conf = spark.getConf()
    assert (conf.get("spark.driver.host"), conf.get("spark.driver.bindAddress")) == ("127.0.0.1", "127.0.0.1")
    assert spark.uiWebUrl is None


@pytest.mark.spark
def test_session_leaves_ctrl_c_alone(spark: "SparkContext") -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.spark
def test_tasks_import_shipped_code(spark: "SparkContext", tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as archive:
        archive.writestr("shipped_module.py", "ANSWER = 42")
    ship_archive(spark, tmp_path / "shipped.zip")
    results = spark.parallelize([1], 1).map(lambda _: __import__("shipped_module").ANSWER)
    assert results.collect() == [42]


@pytest.mark.spark
def test_error_of_dead_worker_is_one_line(spark: "SparkContext") -> None:
    from py4j.protocol import Py4JJavaError

    with pytest.raises(Py4JJavaError) as raised:
        spark.parallelize([1], 1).foreach(partial(os._exit))
    error = spark_failure(spark, raised.value)
    assert type(error) is CqrsError and error.message.startswith("Spark gave up: Job aborted")
    assert "\n" not in str(error) and error.hint.endswith("spark.log")


def test_first_line_of_an_error_is_reported() -> None:
    """Errors of PySpark 4.1 begin with an empty line."""
    context: Any = SimpleNamespace(_conf={LOG_PROPERTY: "spark.log"})
    message = spark_failure(context, RuntimeError("\n  An exception was thrown.\nTraceback")).message
    assert message == "Spark gave up: An exception was thrown."


@pytest.mark.parametrize(
    ("master", "log"), [("local[*]", "/run.log"), ("local[2, 3]", "/run.log"), ("spark://127.0.0.1:7077", "")]
)
def test_local_workers_share_the_log(master: str, log: str) -> None:
    context: Any = SimpleNamespace(_conf={LOG_PROPERTY: "/run.log", "spark.master": master})
    assert worker_log(context) == log


def test_full_disk_is_named() -> None:
    """The cause is in the last exception of a chain in the JVM."""
    disk_error = SimpleNamespace(getMessage=lambda: "No space left on device", getCause=lambda: None)
    write_error = SimpleNamespace(getMessage=lambda: "Task failed", getCause=lambda: disk_error)
    spark_error, context = (
        RuntimeError(),
        cast("SparkContext", SimpleNamespace(_conf={LOG_PROPERTY: "x.log"})),
    )
    spark_error.java_exception = write_error  # type: ignore[attr-defined]  # as py4j does
    error = spark_failure(context, spark_error)
    assert isinstance(error, ConfigurationError)
    assert error.message == "Spark gave up: No space left on device"


@pytest.mark.spark
def test_paths_are_local_files(spark: "SparkContext") -> None:
    assert spark._jsc.hadoopConfiguration().get("fs.defaultFS") == "file:///"


@pytest.mark.spark
def test_numbers_have_ascii_digits(spark: "SparkContext") -> None:
    assert spark._jvm.java.util.Locale.getDefault().toString() == "en_US"  # type: ignore[union-attr]


def test_exited_jvm_shows_its_first_line(tmp_path: Path) -> None:
    (log := tmp_path / "spark.log").write_text("Picked up JAVA_TOOL_OPTIONS: -x\nError opening zip file\n")
    assert "while it started: Error opening zip file" in str(start_error(log))


@pytest.mark.spark
def test_group_signal_spares_the_jvm(spark: "SparkContext") -> None:
    jvm: int = spark._gateway.proc.pid  # type: ignore[union-attr]
    assert os.getsid(jvm) != os.getsid(0)


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_shows_no_traceback(tmp_path: Path) -> None:
    process = run_python(INTERRUPTED_DRIVER, tmp_path / "spark.log")
    assert (process.stdout, process.stderr) == ("interrupted\n", "")
