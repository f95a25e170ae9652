"""The Spark session of every job: it prints nothing, starts quickly, and leaves no process or folder."""

import re
import signal
import socket
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cqrs_cli import failpoints
from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError, UsageError
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.spark_archive import DRIVER_OPTIONS, with_archives
from cqrs_cli.registry import source_archive
from cqrs_cli.runs.session_log import session_log
from cqrs_cli.system import java
from cqrs_cli.system.account import require_account, require_host
from cqrs_cli.system.memory import ARENAS

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from cqrs_cli.settings.settings import Settings

#: The module from which Spark forks its Python workers.
DAEMON = "cqrs_cli.jobs.engine.daemon"

#: Properties that correctness needs. A speculative copy of a task would fence the first copy. A set must have the same
#: order on every worker. A file in a worker's current folder must not shadow a module.
FIXED_PROPERTIES = {
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.executorEnv.PYTHONHASHSEED": "0",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}

#: Properties for a driver that schedules a handful of long tasks; `--conf` overrides them.
DEFAULT_PROPERTIES = {
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # Spark writes to stderr even in a pipe
    "spark.sql.catalogImplementation": "in-memory",
    "spark.hadoop.fs.defaultFS": "file:///",  # --out is a local path; this machine's Hadoop may have another default
    "spark.hadoop.fs.permissions.umask-mode": "077",  # for the files of --out; Hadoop ignores the process's umask
    "spark.executorEnv.MALLOC_ARENA_MAX": f"{ARENAS}",  # an owner has a dozen threads: more arenas cost 60 MB
    "spark.python.daemon.module": DAEMON,
    "spark.python.task.killTimeout": "100ms",  # wait before a kill; the default of 2 s delays the next task
    "spark.decommission.enabled": "true",  # a drained executor tells the driver, and finishes its tasks
}

#: Options of the driver's JVM. It only schedules tasks, so fast compilation matters more than fast code. The language
#: is set so that file names and messages have ASCII digits in every locale.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.language=en -Duser.country=US"

#: Matches the operating system's messages about faults that an operator can correct.
_MACHINE_ERROR = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Too many open files"
)

#: The maximum number of messages to read from the chain of a Java exception's causes.
_MAX_CAUSES = 10

LOG_PROPERTY = "spark.cqrs.log"  # a property of cqrs: the path of this session's log

#: The property with the folder for Spark's tables. Spark creates this folder at any query, by default in the current
#: folder.
_WAREHOUSE = "spark.sql.warehouse.dir"

#: Match a master URL that runs all tasks in the driver's JVM, and the host and port of a standalone master.
_LOCAL_MASTER = re.compile(r"local(\[(\d+|\*)( *, *\d+)?\])?")
_MASTER_HOST = re.compile(r"spark://(\[[^]]+\]|[^:,]+):(\d+)")
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@contextmanager
def session(master: str, conf: Mapping[str, str], log_file: Path, name: str) -> Iterator["SparkContext"]:
    """Yield a Spark context on `master` (`local[N]`, `spark://…`), and stop it at the end of the block. A
    process can have one session at a time.

    `conf` has the user's own properties (`--conf`). `name`: the name of the application in Spark. Spark's messages go
    to `log_file` (see `session_log`). The web UI is off unless `spark.ui.enabled` is true. If the master is on this
    machine, all ports listen on loopback only. The caller's handler of SIGINT stays installed.

    Raises `UnavailableError` if Java or the master is missing, `ConfigurationError` for a master or property that Spark
    does not accept, `UsageError` for a property that would break a guarantee.
    """
    from py4j.protocol import Py4JError

    is_local = _is_local(master)
    settings = _spark_properties(master, conf, name, is_local)
    _check_master(master)
    require_account()
    require_host("localhost")
    java_path = java.find_java()
    settings |= with_archives(java_path, settings)
    with session_log(log_file) as (log, output):
        settings[LOG_PROPERTY] = str(log)
        with jvm.running_jvm(java_path, settings, log, output, is_local) as gateway:
            context = _start_context(settings, gateway, log)
            try:
                yield context
            except Py4JError as error:
                raise spark_failure(context, error) from error
            finally:
                _stop(context)


@contextmanager
def project_session(
    settings: "Settings",
    job: str,
    subject: str,
    conf: Mapping[str, str] | None = None,
    packages: Iterable[str] = (),
) -> Iterator["SparkContext"]:
    """Yield a `session` for a job of the project. Workers can load the code of the project's aggregates, and of the
    other `packages` of the project.

    `job`: the command, such as `run`, which also names the log. `subject`: the topic or aggregate that the command
    names, for the name of the application.
    """
    log_file = settings.root / ".cqrs" / "log" / f"{job}.log"
    name = f"cqrs {job} {subject}".strip()
    with (
        TemporaryDirectory() as folder,
        session(settings.master, {_WAREHOUSE: folder, **(conf or {})}, log_file, name) as context,
    ):
        for package in (settings.aggregates, *packages):
            ship_archive(
                context, source_archive(package, settings.root, Path(folder) / archive_name(package))
            )
        yield context


def ship_archive(context: "SparkContext", archive: Path) -> None:
    """Put a zip of Python modules on the import path of every worker, present and future."""
    context.addPyFile(str(archive))


def archive_name(package: str) -> str:
    """Return the name of the file in which a package is shipped to workers."""
    return f"cqrs-{package}.zip"


def code_root(package: str, root: Path) -> Path:
    """Return the path from which a task imports a package: the shipped archive if there is one, else `root`."""
    from pyspark import SparkFiles

    archive = Path(SparkFiles.get(archive_name(package)))
    return archive if archive.exists() else root


def session_property(context: "SparkContext", name: str) -> str | None:
    """Return a property of the session, without a call of the JVM. `context.getConf()` would take 15 ms: it copies all
    properties, and calls the JVM several times for each.
    """
    return context._conf.get(name)


def worker_log(context: "SparkContext") -> str:
    """Return the path of the session's log if the workers write to it, too; empty if the executors have their own
    logs, as on a cluster.
    """
    is_shared = _LOCAL_MASTER.fullmatch(session_property(context, "spark.master") or "")
    return (session_property(context, LOG_PROPERTY) or "") if is_shared else ""


def spark_failure(context: "SparkContext", error: Exception) -> CqrsError:
    """Return the error for a job that Spark ended.

    Tasks return their own errors as results. So an error of Spark means that a worker has died, or that the machine
    lacks a resource such as disk space.
    """
    texts = error_texts(error)
    log = session_property(context, LOG_PROPERTY)
    if machine_error := _MACHINE_ERROR.search("\n".join(texts)):
        return ConfigurationError(
            f"Spark gave up: {machine_error[0]}",
            f"check the folder of --out, TMPDIR and spark.local.dir; see {log}",
        )
    return CqrsError(f"Spark gave up: {texts[0].splitlines()[0][:300]}", f"see {log}")


def error_texts(error: Exception) -> list[str]:
    """Return the texts of an error of Spark, and of its causes in the JVM: at least one text, none of them empty."""
    from py4j.protocol import Py4JError

    java_exception = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    texts = []
    try:
        if java_exception is None:
            texts.append(str(error))
        while java_exception is not None and len(texts) < _MAX_CAUSES:
            texts.append(str(java_exception.getMessage() or java_exception.toString()))
            java_exception = java_exception.getCause()
    except (OSError, Py4JError):  # the JVM has exited
        pass
    return [text for text in map(str.strip, texts) if text] or [type(error).__name__]


def dataframes(context: "SparkContext") -> "SparkSession":
    """Return the entry to DataFrames. The first call takes two seconds, so only jobs that need DataFrames call this."""
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark warns about the versions of pandas and pyarrow
        return SparkSession(context)


def _spark_properties(master: str, conf: Mapping[str, str], name: str, is_local: bool) -> dict[str, str]:
    for key, value in FIXED_PROPERTIES.items():
        if conf.get(key, value) != value:
            raise UsageError(f"--conf {key}={conf[key]}: it must stay {value}", "leave it out")
    local_properties = (
        {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if is_local else {}
    )
    # With this property Spark generates a secret. Without a secret any user of this machine could send serialized
    # objects to Spark's ports.
    authentication = {"spark.authenticate": "true"} if _LOCAL_MASTER.fullmatch(master) else {}
    return {
        "spark.master": master,
        "spark.app.name": name,
        **DEFAULT_PROPERTIES,
        **local_properties,
        **authentication,
        **conf,
        **FIXED_PROPERTIES,
        **{f"spark.executorEnv.{name}": value for name, value in failpoints.environment().items()},
        DRIVER_OPTIONS: f"{JAVA_OPTIONS} {conf.get(DRIVER_OPTIONS, '')}".strip(),
    }


def _start_context(settings: Mapping[str, str], gateway: Any, log_file: Path) -> "SparkContext":
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark import SparkConf, SparkContext

    handler = signal.getsignal(signal.SIGINT)
    try:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        return SparkContext(conf=conf, gateway=gateway)
    except (ConnectionError, Py4JNetworkError) as error:  # the JVM has exited
        _clear_gateway()
        raise jvm.start_error(log_file) from error
    except Py4JError as error:
        _clear_gateway()
        raise _start_error(str(error), settings["spark.master"], log_file) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)  # PySpark replaces the caller's handler


def _start_error(text: str, master: str, log_file: Path) -> CqrsError:
    """Return the error for a Spark that did not start, with the cause from `text`, the exception of Spark as text."""
    causes = [
        line.strip() for line in text.splitlines() if line.startswith(": ") or line.startswith("Caused by: ")
    ]
    reason = re.sub(
        r"^(: |Caused by: )?([\w.$]+(Exception|Error): )?(\[\w+\] )?", "", causes[-1] if causes else text
    )
    if "master" in reason.lower():
        return ConfigurationError(
            f"Spark rejects the master {master}: {reason}", "correct --master, such as 'local[*]'"
        )
    return ConfigurationError(f"Spark does not start: {reason}", f"check --conf; see {log_file}")


def _stop(context: "SparkContext") -> None:
    """Stop all jobs and the application. If the JVM has exited already, nothing is left to stop."""
    from py4j.protocol import Py4JError

    server, context._accumulatorServer = context._accumulatorServer, None  # type: ignore[assignment]
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # the JVM exits: no errors
    # In a thread, because `shutdown` may block for a second.
    threading.Thread(target=server.shutdown, daemon=True).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            context.stop()
        except (OSError, Py4JError):
            if not jvm.has_exited(context, timeout=1.0):
                raise
    _clear_gateway()


def _clear_gateway() -> None:
    """Clear the gateway that PySpark keeps for the process's next context: its JVM has ended with this session."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None


def _is_local(master: str) -> bool:
    """Return True if the driver and all executors are on this machine."""
    host = _MASTER_HOST.match(master)
    return master.startswith("local") or (host is not None and host[1] in _LOOPBACK_HOSTS)


def _check_master(master: str) -> None:
    """Raise `UnavailableError` if the standalone master does not answer within seconds; Spark would retry for a minute.

    Several masters (`spark://a:7077,b:7077`) are not checked.
    """
    hosts = _MASTER_HOST.findall(master) if "," not in master else []
    for host, port in hosts:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except OSError as error:
            raise UnavailableError(
                f"no Spark master at {master} ({error.strerror or error})",
                "start it, or use --master 'local[*]'",
            ) from error
